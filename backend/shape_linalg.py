"""What ``numpy.linalg`` and ``numpy.fft`` give, for the shapes and dtypes that they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.stand_in import stand_in

__all__ = ["LINALG_RULES"]


def _matrix(op: str, a: Array, square: bool = True) -> tuple[Shape, int, int]:
    """The batch dims, rows and columns of `a`, or an error."""
    if a.ndim < 2 or (square and a.shape[-1] != a.shape[-2]):
        raise ShapeError(f"{op}: wanted {'square ' if square else ''}matrices, got the shape {a.shape}.")
    return a.shape[:-2], a.shape[-2], a.shape[-1]


def _dtype(function: Callable[..., object], *arrays: Array) -> np.dtype[np.generic]:
    """The dtype of the first result for matrices of these dtypes; also for its errors."""
    result = function(*(np.ones((1, 1), a.dtype) for a in arrays))
    first = result[0] if isinstance(result, tuple) else result
    return np.asarray(first).dtype


def _real(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return np.empty(0, dtype).real.dtype


def _unchanged(function: Callable[..., object]) -> Callable[..., Array]:
    def rule(a: Array) -> Array:
        _matrix(function.__name__, a)
        return stand_in(a.shape, _dtype(function, a))

    return rule


def _solve(a: Array, b: Array) -> Array:
    batch, rows, _ = _matrix("solve", a)
    dtype = _dtype(np.linalg.solve, a, b)
    if b.ndim == 1 and b.shape[0] == rows:
        return stand_in((*batch, rows), dtype)
    if b.ndim < 2 or b.shape[-2] != rows:
        raise ShapeError(f"solve: a right side of shape {b.shape} does not fit matrices of shape {a.shape}.")
    return stand_in((*np.broadcast_shapes(batch, b.shape[:-2]), *b.shape[-2:]), dtype)


def _det(a: Array) -> Array:
    return stand_in(_matrix("det", a)[0], _dtype(np.linalg.det, a))


def _slogdet(a: Array) -> tuple[Array, Array]:
    batch, dtype = _matrix("slogdet", a)[0], _dtype(np.linalg.slogdet, a)
    return stand_in(batch, dtype), stand_in(batch, _real(dtype))


def _eigh(a: Array, UPLO: str = "L") -> tuple[Array, Array]:
    batch, n, _ = _matrix("eigh", a)
    eigh: Callable[..., tuple[Array, Array]] = np.linalg.eigh
    dtype = eigh(np.ones((1, 1), a.dtype), UPLO)[1].dtype
    return stand_in((*batch, n), _real(dtype)), stand_in(a.shape, dtype)


def _eigvalsh(a: Array, UPLO: str = "L") -> Array:
    return _eigh(a, UPLO)[0]


def _eig(a: Array) -> tuple[Array, Array]:
    # NumPy gives real arrays if all values are real, which only data could tell
    batch, n, _ = _matrix("eig", a)
    dtype = np.result_type(_dtype(np.linalg.eigvals, a), np.complex64)
    return stand_in((*batch, n), dtype), stand_in(a.shape, dtype)


def _eigvals(a: Array) -> Array:
    return _eig(a)[0]


def _svd(a: Array, full_matrices: bool = True, compute_uv: bool = True) -> Array | tuple[Array, Array, Array]:
    batch, m, n = _matrix("svd", a, square=False)
    dtype, k = _dtype(np.linalg.svd, a), min(m, n)
    values = stand_in((*batch, k), _real(dtype))
    if not compute_uv:
        return values
    left, right = ((m, m), (n, n)) if full_matrices else ((m, k), (k, n))
    return stand_in((*batch, *left), dtype), values, stand_in((*batch, *right), dtype)


def _qr(a: Array, mode: str = "reduced") -> Array | tuple[Array, Array]:
    batch, m, n = _matrix("qr", a, square=False)
    dtype = _dtype(np.linalg.qr, a)
    k = m if mode == "complete" else min(m, n)
    right = stand_in((*batch, k, n), dtype)
    return right if mode == "r" else (stand_in((*batch, m, k), dtype), right)


def _transform(function: Callable[..., Array]) -> Callable[..., Array]:
    """The rule of a Fourier transform along one dim."""

    def rule(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
        axis = normalize_axis_index(axis, a.ndim)
        # one place is enough for the dtype and the errors, two for the length that irfft chooses
        probe = function(np.ones((2,), a.dtype), 2 if n is None else min(n, 2), norm=norm)
        length = a.shape[axis] if n is None else n
        if function is np.fft.irfft and n is None:
            length = 2 * (a.shape[axis] - 1)
        if length < 1:
            raise ShapeError(f"{function.__name__}: wanted a length of at least 1, got {length}.")
        if function is np.fft.rfft:
            length = length // 2 + 1
        return stand_in((*a.shape[:axis], length, *a.shape[axis + 1 :]), probe.dtype)

    return rule


def _transform_of_several(function: Callable[..., Array]) -> Callable[..., Array]:
    one = _transform(function)

    def rule(
        a: Array, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
    ) -> Array:
        dims = list(range(a.ndim)) if axes is None else list(axes)
        for i, dim in enumerate(dims):
            a = one(a, None if s is None or s[i] == -1 else s[i], dim, norm)
        return a

    return rule


def _eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = np.float64, **options: object) -> Array:
    return stand_in((N, N if M is None else M), dtype)


LINALG_RULES: Mapping[Callable[..., object], Callable[..., object]] = {
    **{function: _unchanged(function) for function in (np.linalg.inv, np.linalg.cholesky)},
    np.linalg.solve: _solve,
    np.linalg.det: _det,
    np.linalg.slogdet: _slogdet,
    np.linalg.eigh: _eigh,
    np.linalg.eigvalsh: _eigvalsh,
    np.linalg.eig: _eig,
    np.linalg.eigvals: _eigvals,
    np.linalg.svd: _svd,
    np.linalg.qr: _qr,
    **{function: _transform(function) for function in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft)},
    np.fft.fftn: _transform_of_several(np.fft.fft),
    np.fft.ifftn: _transform_of_several(np.fft.ifft),
    np.eye: _eye,
}
"""From a function to its rule, which takes the same arguments with stand-ins for arrays."""
