"""NumPy's products, linear algebra and Fourier transforms on tensors; see `shardwise.tensor.protocol`.

Each takes NumPy's arguments; those without a meaning here are refused by Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.errors import ArgumentError
from shardwise.tensor.ops import (
    determinant,
    factorization,
    fourier_form,
    inverse,
    matrix_norm,
    product,
    singular,
    spectrum,
)
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.cross import cross
from shardwise.tensor.ops.einsum import einsum
from shardwise.tensor.ops.equation import equation_and_operands
from shardwise.tensor.ops.matmul import MatMul
from shardwise.tensor.ops.matrix_function import matrix_power

__all__ = ["LINEAR_FUNCTIONS"]


def _einsum(*parts: Any, optimize: Any = True) -> Any:
    return einsum(*equation_and_operands(parts))


def _dot(a: Any, b: Any) -> Any:
    """Multiply numbers, vectors and matrices; NumPy's rule for more dims is that of ``tensordot``."""
    if not np.ndim(a) or not np.ndim(b):
        return a * b
    if np.ndim(b) < 3 and np.ndim(a) < 3:
        return MatMul.apply(a, b)
    return product.tensordot(a, b, ([-1], [-2 if np.ndim(b) > 1 else -1]))


def _flat(a: Any) -> Any:
    return np.reshape(a, (-1,))


def _solve(a: Any, b: Any) -> Any:
    """By NumPy's rule only one dim makes a vector."""
    return inverse.solve(a, b) if np.ndim(b) == 1 else inverse.Solve.apply(a, b)


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if compute_uv:
        return singular.SVD.apply(a, full_matrices=full_matrices)
    return singular.SingularValues.apply(a)


def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return factorization.QR.apply(a)[1]
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: wanted mode to be 'reduced', 'complete' or 'r', got {mode!r}")
    return factorization.QR.apply(a, mode=mode)


def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    return singular.Pinv.apply(a, rtol=rcond if rtol is None else rtol, hermitian=hermitian)


def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    return matrix_norm.matrix_rank(A, 0.0 if tol is None else tol, rtol, hermitian)


def _cross(a: Any, b: Any, axis: int = -1) -> Any:
    return cross(a, b, axis)


def _vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return matrix_norm.vector_norm(x, ord, axis, keepdims)


def _matrix_norm(x: Any, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return matrix_norm.matrix_norm(x, ord, (-2, -1), keepdims)


def _one(form: Any, op: str, *rest: Any) -> Callable[..., Any]:
    def transform(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
        return form(op, a, None if n is None else (n,), (axis,), norm, *rest)

    return transform


def _two(form: Any, op: str, *rest: Any) -> Callable[..., Any]:
    def transform(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
        return form(op, a, s, axes, norm, *rest)

    return transform


def _several(form: Any, op: str, *rest: Any) -> Callable[..., Any]:
    def transform(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
        return form(op, a, s, axes, norm, *rest)

    return transform


def _matrix_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return np.trace(x, offset, -2, -1, dtype)


LINEAR_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.einsum: _einsum,
    np.dot: _dot,
    np.vdot: lambda a, b: MatMul.apply(conj(_flat(a)), _flat(b)),
    np.inner: product.inner,
    np.outer: lambda a, b: product.outer(_flat(a), _flat(b)),
    np.kron: product.kron,
    np.tensordot: lambda a, b, axes=2: product.tensordot(a, b, axes),
    np.cross: _cross,
    np.linalg.multi_dot: product.multi_dot,
    np.linalg.outer: product.outer,
    np.linalg.matmul: MatMul.apply,
    np.linalg.tensordot: lambda x1, x2, /, *, axes=2: product.tensordot(x1, x2, axes),
    np.linalg.vecdot: lambda x1, x2, /, *, axis=-1: product.vecdot(x1, x2, axis),
    np.linalg.trace: _matrix_trace,
    np.linalg.cross: lambda x1, x2, *, axis=-1: cross(x1, x2, axis),
    np.linalg.inv: lambda a: inverse.Inv.apply(a),
    np.linalg.solve: _solve,
    np.linalg.det: lambda a: determinant.Det.apply(a),
    np.linalg.slogdet: lambda a: determinant.SlogDet.apply(a),
    np.linalg.matrix_power: matrix_power,
    np.linalg.cholesky: lambda a, *, upper=False: factorization.Cholesky.apply(a, upper=upper),
    np.linalg.qr: _qr,
    np.linalg.svd: _svd,
    np.linalg.svdvals: lambda x: singular.SingularValues.apply(x),
    np.linalg.eigh: lambda a, UPLO="L": spectrum.Eigh.apply(a, uplo=UPLO),
    np.linalg.eigvalsh: lambda a, UPLO="L": spectrum.Eigvalsh.apply(a, uplo=UPLO),
    np.linalg.eig: lambda a: spectrum.Eig.apply(a),
    np.linalg.eigvals: lambda a: spectrum.Eigvals.apply(a),
    np.linalg.pinv: _pinv,
    np.linalg.norm: lambda x, ord=None, axis=None, keepdims=False: matrix_norm.norm(x, ord, axis, keepdims),
    np.linalg.vector_norm: _vector_norm,
    np.linalg.matrix_norm: _matrix_norm,
    np.linalg.cond: lambda x, p=None: matrix_norm.cond(x, p),
    np.linalg.matrix_rank: _matrix_rank,
    np.fft.fft: _one(fourier_form.complex_to_complex, "fft", False),
    np.fft.ifft: _one(fourier_form.complex_to_complex, "ifft", True),
    np.fft.rfft: _one(fourier_form.real_to_complex, "rfft"),
    np.fft.irfft: _one(fourier_form.complex_to_real, "irfft"),
    np.fft.hfft: _one(fourier_form.hermitian_to_real, "hfft"),
    np.fft.ihfft: _one(fourier_form.real_to_hermitian, "ihfft"),
    np.fft.fft2: _two(fourier_form.complex_to_complex, "fft2", False),
    np.fft.ifft2: _two(fourier_form.complex_to_complex, "ifft2", True),
    np.fft.rfft2: _two(fourier_form.real_to_complex, "rfft2"),
    np.fft.irfft2: _two(fourier_form.complex_to_real, "irfft2"),
    np.fft.fftn: _several(fourier_form.complex_to_complex, "fftn", False),
    np.fft.ifftn: _several(fourier_form.complex_to_complex, "ifftn", True),
    np.fft.rfftn: _several(fourier_form.real_to_complex, "rfftn"),
    np.fft.irfftn: _several(fourier_form.complex_to_real, "irfftn"),
    np.fft.fftshift: lambda x, axes=None: fourier_form.shifted("fftshift", x, axes, back=False),
    np.fft.ifftshift: lambda x, axes=None: fourier_form.shifted("ifftshift", x, axes, back=True),
}
