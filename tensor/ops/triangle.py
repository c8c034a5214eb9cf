"""Triangles and diagonals. `Diagonal` and `Undiagonal` are each other's adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS, term
from shardwise.tensor.signature import Part

__all__ = ["Diagonal", "Tril", "Triu", "Undiagonal", "diagonal_length"]


def _part_diagonal(
    params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
) -> dict[str, Any]:
    """Count the diagonal from the corner of a part."""
    rows, columns = outputs[0].offset[-2:]
    return {**params, "k": params.get("k", 0) + rows - columns}


class Tril(Function):
    """The lower triangle of the last two dims; zeros above diagonal `k`."""

    signature = "...mn->...mn"
    exact = True
    linear = "all"
    localize = staticmethod(_part_diagonal)

    @staticmethod
    def forward(ctx: Context, a: Array, k: int = 0) -> Array:
        ctx.k = k
        return np.tril(a, k)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.tril(g, ctx.k),)


class Triu(Function):
    """The upper triangle of the last two dims; zeros below diagonal `k`."""

    signature = "...mn->...mn"
    exact = True
    linear = "all"
    localize = staticmethod(_part_diagonal)

    @staticmethod
    def forward(ctx: Context, a: Array, k: int = 0) -> Array:
        ctx.k = k
        return np.triu(a, k)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.triu(g, ctx.k),)


def diagonal_length(rows: int, columns: int, offset: int) -> int:
    """How many elements diagonal number `offset` of a matrix has."""
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


def _rest(ndim: int, dim1: int, dim2: int) -> str:
    return "".join(LETTERS[d] for d in range(ndim) if d not in (dim1, dim2))


def _diagonal_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dims = [params[name] % ndim for name in ("dim1", "dim2")]
    return f"{term(ndim, {d: LETTERS[d] for d in dims})}->{_rest(ndim, *dims)}[{LETTERS[ndim]}]"


class Diagonal(Function):
    """A diagonal over two dims, as the last dim of a view."""

    signature = _diagonal_signature
    view = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, offset: int, dim1: int, dim2: int) -> Array:
        ctx.kept = {"shape": a.shape, "offset": offset, "dim1": dim1, "dim2": dim2}
        out = np.diagonal(a, offset, dim1, dim2)
        if isinstance(out, np.ndarray) and a.flags.writeable:
            out.flags.writeable = True  # NumPy is careful here, and PyTorch's users write into it
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Undiagonal.apply(g, **ctx.kept),)


def _undiagonal_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(params["shape"])
    dims = [params[name] % ndim for name in ("dim1", "dim2")]
    return f"{_rest(ndim, *dims)}[{LETTERS[ndim]}]->{term(ndim, {d: LETTERS[d] for d in dims})}"


class Undiagonal(Function):
    """Zeros of `shape`, with the last dim of the input on a diagonal over two dims."""

    signature = _undiagonal_signature
    exact = True
    linear = "all"

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return {**params, "shape": outputs[0].shape}

    @staticmethod
    def forward(ctx: Context, a: Array, shape: Shape, offset: int, dim1: int, dim2: int) -> Array:
        ctx.kept = {"offset": offset, "dim1": dim1, "dim2": dim2}
        out = np.zeros_like(a, shape=shape)
        places = np.arange(a.shape[-1], like=a)
        np.moveaxis(out, (dim1, dim2), (-2, -1))[..., places + max(0, -offset), places + max(0, offset)] = a
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Diagonal.apply(g, **ctx.kept),)
