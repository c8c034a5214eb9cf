"""Make complex tensors: of real and imaginary parts, of lengths and angles."""

from __future__ import annotations

import numpy as np

from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.tensor.joining import stack
from shardwise.tensor.ops.complex import Complex
from shardwise.tensor.tensor import Tensor

__all__ = ["complex", "polar", "view_as_complex", "view_as_real"]


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


def view_as_complex(input: Tensor) -> Tensor:
    """Return complex numbers of pairs along the last dim, which goes: copies, where PyTorch has views.

    Raises
    ------
    ShapeError
        The last dim has not size two.
    """
    _check_parts("view_as_complex", input)
    if input.shape[-1:] != (2,):
        raise ShapeError(f"view_as_complex: wanted a last dim of size 2, got the shape {input.shape}")
    return Complex.apply(input[..., 0], input[..., 1])


def view_as_real(input: Tensor) -> Tensor:
    """Return real and imaginary parts along a new last dim: copies, where PyTorch has views."""
    if input.dtype.kind != "c":
        raise DTypeError(f"view_as_real: wanted complex numbers, got {input.dtype}")
    return stack([input.real, input.imag], -1)


def _check_parts(name: str, *parts: Tensor) -> None:
    for part in parts:
        if part.dtype not in (np.float32, np.float64):
            raise DTypeError(f"{name}: wanted float32 or float64, got {part.dtype}; cast with astype() first")
