"""Products of vectors, matrices and more, made of `MatMul`, `Einsum` and pointwise ops.

They run on arrays and on tensors alike, and check what PyTorch's functions of the same names check.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.einsum import einsum
from shardwise.tensor.ops.matmul import MatMul

__all__ = [
    "Pairs", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "dot", "inner", "kron", "mm",
    "multi_dot", "mv", "outer", "tensordot", "vdot", "vecdot",
]  # fmt: skip

T = TypeVar("T")
Pairs: TypeAlias = int | tuple[Sequence[int] | int, Sequence[int] | int]


def mm(a: T, b: Any) -> T:
    """Multiply two matrices, and nothing else."""
    _check_dims("mm", (a, b), (2, 2))
    return MatMul.apply(a, b)


def bmm(a: T, b: Any) -> T:
    """Multiply the matrices of two batches, (b, m, k) and (b, k, n), one by one."""
    _check_dims("bmm", (a, b), (3, 3))
    _check_batch("bmm", a, b)
    return MatMul.apply(a, b)


def mv(a: T, b: Any) -> T:
    """Multiply a matrix (m, k) and a vector (k,)."""
    _check_dims("mv", (a, b), (2, 1))
    return MatMul.apply(a, b)


def dot(a: T, b: Any) -> T:
    """Multiply two vectors and add up, without conjugating."""
    _check_dims("dot", (a, b), (1, 1))
    return MatMul.apply(a, b)


def vdot(a: T, b: Any) -> T:
    """Multiply the conjugate of a vector with another vector, and add up."""
    _check_dims("vdot", (a, b), (1, 1))
    return MatMul.apply(conj(a), b)


def vecdot(a: Any, b: Any, dim: int = -1) -> Any:
    """Multiply the conjugate of `a` with `b` and add up along `dim`; the other dims broadcast."""
    ndim = max(np.ndim(a), np.ndim(b))
    place = counted_dim("vecdot", dim, ndim) - ndim
    if place != -1:
        a, b = np.moveaxis(a, place, -1), np.moveaxis(b, place, -1)
    return einsum("...a,...a->...", (conj(a), b))


def inner(a: Any, b: Any) -> Any:
    """Multiply and add up over the last dim of both; a number scales the other."""
    if not np.ndim(a) or not np.ndim(b):
        return a * b
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"inner: the last dims differ in shapes {a.shape} and {b.shape}; wanted them equal")
    return tensordot(a, b, ([-1], [-1]))


def outer(a: Any, b: Any) -> Any:
    """Multiply every element of one vector with every element of another."""
    _check_dims("outer", (a, b), (1, 1))
    return np.expand_dims(a, 1) * b


def tensordot(a: Any, b: Any, dims: Pairs = 2) -> Any:
    """Multiply and add up over pairs of dims.

    Parameters
    ----------
    a, b : array or Tensor
    dims : int, or two sequences of int
        How many of the last dims of `a` to pair with the first of `b`; or which of each, in order.
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ArgumentError(
                f"tensordot: wanted dims between 0 and {min(a.ndim, b.ndim)} for shapes {a.shape} and "
                f"{b.shape}, got {dims}"
            )
        pairs = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        one, other = [[each] if isinstance(each, int) else list(each) for each in dims]
        pairs = (
            [counted_dim("tensordot", d, a.ndim) for d in one],
            [counted_dim("tensordot", d, b.ndim) for d in other],
        )
    if len(pairs[0]) != len(pairs[1]) or any(len(set(each)) != len(each) for each in pairs):
        raise ArgumentError(f"tensordot: wanted as many dims of each, and none twice, got {dims}")
    for i, j in zip(*pairs, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise ShapeError(
                f"tensordot: dim {i} of the first has size {a.shape[i]}, and dim {j} of the second has size "
                f"{b.shape[j]} (shapes {a.shape} and {b.shape}); they must be equal"
            )
    letters = string.ascii_letters
    left = list(letters[: a.ndim])
    right = list(letters[a.ndim : a.ndim + b.ndim])
    for i, j in zip(*pairs, strict=True):
        right[j] = left[i]
    kept = [c for i, c in enumerate(left) if i not in pairs[0]]
    kept += [c for j, c in enumerate(right) if j not in pairs[1]]
    return einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", (a, b))


def kron(a: Any, b: Any) -> Any:
    """Put a copy of `b` in the place of every element of `a`, times that element."""
    ndim = max(a.ndim, b.ndim)
    rows = (1,) * (ndim - a.ndim) + a.shape
    columns = (1,) * (ndim - b.ndim) + b.shape
    spread = np.reshape(a, tuple([n for m in rows for n in (m, 1)]))
    tiled = np.reshape(b, tuple([n for m in columns for n in (1, m)]))
    return np.reshape(spread * tiled, tuple([n * m for n, m in zip(rows, columns, strict=True)]))


def addmm(base: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
    """Return ``beta * base + alpha * (a @ b)`` for matrices; `base` broadcasts."""
    return _added("addmm", base, mm(a, b), beta, alpha)


def addmv(base: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
    """Return ``beta * base + alpha * (a @ b)`` for a matrix and a vector; `base` broadcasts."""
    return _added("addmv", base, mv(a, b), beta, alpha)


def addr(base: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
    """Return ``beta * base + alpha * outer(a, b)``; `base` broadcasts."""
    return _added("addr", base, outer(a, b), beta, alpha)


def baddbmm(base: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
    """Return ``beta * base + alpha * bmm(a, b)``; `base` broadcasts."""
    return _added("baddbmm", base, bmm(a, b), beta, alpha)


def addbmm(base: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
    """Return ``beta * base`` plus `alpha` times the sum of all products of a batch; `base` broadcasts."""
    _check_dims("addbmm", (a, b), (3, 3))
    _check_batch("addbmm", a, b)
    return _added("addbmm", base, einsum("bmk,bkn->mn", (a, b)), beta, alpha)


def _added(op: str, base: Any, added: Any, beta: complex, alpha: complex) -> Any:
    shape = np.shape(base)
    tail = added.shape[added.ndim - len(shape) :] if len(shape) <= added.ndim else None
    if tail is None or any(n not in (1, m) for n, m in zip(shape, tail, strict=True)):
        raise ShapeError(f"{op}: an input of shape {shape} does not broadcast to the product's {added.shape}")
    if alpha != 1:
        added = added * alpha
    if beta == 0:  # then NaN in the base does not count
        return added
    return added + (base if beta == 1 else base * beta)


def multi_dot(matrices: Sequence[Any]) -> Any:
    """Multiply a chain of matrices in the order that costs least; the first and last may be vectors."""
    parts = list(matrices)
    if not parts:
        raise ArgumentError("multi_dot: wanted at least one matrix, got none")
    ends = {0, len(parts) - 1}
    for i, part in enumerate(parts):
        if part.ndim != 2 and not (part.ndim == 1 and i in ends and len(parts) > 1):
            raise ShapeError(
                f"multi_dot: wanted matrices, or vectors at the ends; operand {i} has shape {part.shape}"
            )
        if i and parts[i - 1].shape[-1] != part.shape[0]:
            raise ShapeError(
                f"multi_dot: operand {i - 1} of shape {parts[i - 1].shape} and operand {i} of shape "
                f"{part.shape} do not fit: {parts[i - 1].shape[-1]} is not {part.shape[0]}"
            )
    first = (1,) if parts[0].ndim == 1 else parts[0].shape[:1]
    sizes = [*first, *[part.shape[0] for part in parts[1:]], parts[-1].shape[1] if parts[-1].ndim > 1 else 1]
    return _chained(parts, _cuts(sizes), 0, len(parts) - 1)


def _cuts(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where to part each stretch of a chain (the matrix-chain dynamic program)."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            ]
            cost[i, j], cuts[i, j] = min(options)
    return cuts


def _chained(parts: list[Any], cuts: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return parts[i]
    k = cuts[i, j]
    return MatMul.apply(_chained(parts, cuts, i, k), _chained(parts, cuts, k + 1, j))


def _check_batch(op: str, a: Any, b: Any) -> None:
    if a.shape[0] != b.shape[0]:
        raise ShapeError(f"{op}: wanted batches of one size, got {a.shape} and {b.shape}; matmul broadcasts")


def _check_dims(op: str, operands: tuple[Any, ...], wanted: tuple[int, ...]) -> None:
    shapes = tuple(np.shape(operand) for operand in operands)
    if tuple(len(shape) for shape in shapes) != wanted:
        names = " and ".join(f"{n} dim{'s' if n > 1 else ''}" for n in wanted)
        found = " and ".join(str(shape) for shape in shapes)
        raise ShapeError(f"{op}: wanted operands with {names}, got shapes {found}; matmul() takes any")
