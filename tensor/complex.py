"""Make complex tensors: of real and imaginary parts, of lengths and angles."""

from __future__ import annotations

import numpy as np

from shardwise.backend.errors import DTypeError
from shardwise.tensor.ops.complex import Complex
from shardwise.tensor.tensor import Tensor

__all__ = ["complex", "polar"]


def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Return complex numbers of their real and imaginary parts; gradients go to both.

    Parameters
    ----------
    real, imag : Tensor of float32 or float64
        Of shapes that broadcast.

    Returns
    -------
    Tensor of complex64 or complex128

    Raises
    ------
    DTypeError
        A part is not float32 or float64.

    Examples
    --------
    >>> import shardwise as sw
    >>> complex(sw.tensor([1.0]), sw.tensor([2.0]))
    tensor([1.+2.j])
    """
    _check_parts("complex", real, imag)
    return Complex.apply(real, imag)


def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Return complex numbers of their lengths and their angles in radians; gradients go to both.

    Parameters, results and errors are those of `complex`.
    """
    _check_parts("polar", abs, angle)
    return Complex.apply(abs * np.cos(angle), abs * np.sin(angle))


def _check_parts(name: str, *parts: Tensor) -> None:
    for part in parts:
        if part.dtype not in (np.float32, np.float64):
            raise DTypeError(f"{name}: wanted float32 or float64, got {part.dtype}; cast with astype() first")
