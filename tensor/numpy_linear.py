"""NumPy's products, linear algebra and Fourier transforms on tensors; see `shardwise.tensor.protocol`.

Each takes NumPy's arguments; those without a meaning here, such as ``out``, are refused by Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.tensor.ops import product
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.einsum import einsum
from shardwise.tensor.ops.equation import equation_and_operands
from shardwise.tensor.ops.matmul import MatMul

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


LINEAR_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.einsum: _einsum,
    np.dot: _dot,
    np.vdot: lambda a, b: MatMul.apply(conj(_flat(a)), _flat(b)),
    np.inner: product.inner,
    np.outer: lambda a, b: product.outer(_flat(a), _flat(b)),
    np.kron: product.kron,
    np.tensordot: lambda a, b, axes=2: product.tensordot(a, b, axes),
    np.linalg.multi_dot: product.multi_dot,
}
