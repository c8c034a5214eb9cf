"""Powers and the exponential of square matrices, and matrices made of powers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.select import backend_of
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.inverse import Inv
from shardwise.tensor.ops.matmul import MatMul
from shardwise.tensor.ops.matrix import adjoint, check_matrices

__all__ = ["MatrixExp", "matrix_power", "vander"]

Shape = tuple[int, ...]

# Numerators of the diagonal Pade approximants to exp, lowest power first, and up to which 1-norm they
# are exact to the last place (Higham, "The scaling and squaring method for the matrix exponential
# revisited", SIAM J. Matrix Anal. Appl. 26, 2005).
_PADE_7 = (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0)
_PADE_13 = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_REACH = {4: (3.925724783138660, _PADE_7), 8: (5.371920351148152, _PADE_13)}  # by bytes of a real number


class MatrixExp(Function):
    """The exponentials of square matrices, by scaling and squaring."""

    signature = "...[m][n]->...[m][n]"
    precision = "wide"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        return 16 * math.prod(shapes[0]) * shapes[0][-1]  # about eight products

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        check_matrices("matrix_exp", a)
        ctx.save(a)
        return _exponential(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        # the derivative along g is the upper right block of the exponential of [[a, g], [0, a]]
        (a,) = ctx.saved
        turned, n = adjoint(a), a.shape[-1]
        upper = np.concatenate([turned, g], axis=-1)
        lower = np.concatenate([np.zeros_like(turned), turned], axis=-1)
        return (MatrixExp.apply(np.concatenate([upper, lower], axis=-2))[..., :n, n:],)


def _exponential(a: Array) -> Array:
    if backend_of(a).name == "shape":  # a dry run has no norm to choose the number of squarings by
        return np.exp(a)
    kind = np.result_type(a.dtype, np.float32) if a.dtype.kind in "fc" else np.dtype(np.float64)
    a = a.astype(kind)
    if a.size == 0:
        return a
    reach, coefficients = _REACH[np.real(a).dtype.itemsize]
    norm = np.max(np.sum(np.abs(a), axis=-2), axis=-1)
    finite = np.isfinite(norm)
    a = np.where(np.expand_dims(finite, (-2, -1)), a, math.nan)
    norm = np.where(finite, norm, 0.0)
    squarings = np.ceil(np.log2(np.maximum(norm / reach, 1.0)))
    out = _pade(a * np.expand_dims(np.exp2(-squarings), (-2, -1)), coefficients)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities are the answer for large matrices
        for step in range(int(np.max(squarings))):
            more = np.expand_dims(squarings > step, (-2, -1))
            out = np.where(more, out @ out, out)
    return out


def _pade(a: Array, coefficients: tuple[float, ...]) -> Array:
    """Return ``p(-a)^-1 p(a)``: both hold the same even powers, and odd ones of opposite sign."""
    identity = np.eye(a.shape[-1], dtype=a.dtype, like=a)
    scaled = [c / coefficients[0] for c in coefficients]  # so that the exponential of 0 is exact
    square = a @ a
    power = identity
    even, odd = identity, scaled[1] * identity
    for i in range(2, len(scaled), 2):
        power = square if i == 2 else power @ square
        even = even + scaled[i] * power
        odd = odd + scaled[i + 1] * power
    odd = a @ odd
    return np.linalg.solve(even - odd, even + odd)


def matrix_power(a: Any, n: int) -> Any:
    """Return square matrices to the power of an integer; the inverse is taken for negative ones."""
    check_matrices("matrix_power", a)
    if not isinstance(n, int):
        raise ArgumentError(f"matrix_power: wanted an integer for the power, got {n!r}")
    if n < 0:
        return matrix_power(Inv.apply(a), -n)
    if n == 0:
        return np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype, like=a), a.shape)
    result = None
    while n:
        if n % 2:
            result = a if result is None else MatMul.apply(result, a)
        n //= 2
        if n:
            a = MatMul.apply(a, a)
    return result


def vander(x: Any, n: int | None = None, increasing: bool = True) -> Any:
    """Return the powers 0 to n - 1 of each element along a new last dim."""
    if not np.ndim(x):
        raise ShapeError("vander: wanted at least one dim, got a tensor without dims")
    count = x.shape[-1] if n is None else n
    if count < 0:
        raise ArgumentError(f"vander: wanted at least 0 powers, got {count}")
    if count == 0:
        return np.zeros_like(x, shape=(*x.shape, 0))
    powers = [np.ones_like(x)]
    for _ in range(count - 1):
        powers.append(powers[-1] * x if len(powers) > 1 else x)
    return np.stack(powers if increasing else powers[::-1], axis=-1)
