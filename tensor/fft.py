"""Discrete Fourier transforms as in ``torch.fft`` and ``numpy.fft``, with gradients.

Real and complex tensors in single and double precision keep it; integers are taken as float64. In all
functions `n`, or `s`, is the number of points along the dims that are transformed: what is longer is cut,
what is shorter is filled up with zeros at its end. `norm` says which direction is divided by that number:
``"backward"`` (the default) the inverse, ``"forward"`` the other, ``"ortho"`` both by its square root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.backend.select import get_backend
from shardwise.tensor.ops import fourier_form as form
from shardwise.tensor.tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn",
    "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq",
    "rfftn",
]  # fmt: skip

Dims = int | Sequence[int] | None
Sizes = int | Sequence[int] | None


def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: form.NormName = None) -> Tensor:
    """Return the transform along a dim.

    Parameters
    ----------
    input : Tensor, real or complex
    n : int, optional
        Number of points; the size of the dim if not given.
    dim : int, default -1
    norm : "backward", "ortho" or "forward", optional

    Returns
    -------
    Tensor
        Complex, with `n` elements along `dim`.

    Raises
    ------
    ShapeError
        If there is no such dim, or no point along it.

    Examples
    --------
    >>> import shardwise as sw
    >>> fft(sw.tensor([1.0, 1.0, 1.0, 1.0])).real.tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    result: Tensor = form.complex_to_complex("fft", input, _points("fft", n), (dim,), norm, False)
    return result


def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: form.NormName = None) -> Tensor:
    """Return the inverse transform along a dim; see `fft`."""
    result: Tensor = form.complex_to_complex("ifft", input, _points("ifft", n), (dim,), norm, True)
    return result


def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: form.NormName = None) -> Tensor:
    """Return the first half, ``n // 2 + 1`` elements, of the transform of real numbers.

    The other half is its conjugate in reverse; see `fft` for the parameters.

    Raises
    ------
    DTypeError
        If `input` is complex.
    """
    result: Tensor = form.real_to_complex("rfft", input, _points("rfft", n), (dim,), norm)
    return result


def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: form.NormName = None) -> Tensor:
    """Return the real numbers of which `input` is the first half of the transform.

    Parameters
    ----------
    input : Tensor
        Its imaginary part does not count in the first element, nor in the last if `n` is even.
    n : int, optional
        Number of points of the result; ``2 * (m - 1)`` for m elements, if not given: name it, to get back
        an odd number of points.
    dim : int, default -1
    norm : "backward", "ortho" or "forward", optional
    """
    result: Tensor = form.complex_to_real("irfft", input, _points("irfft", n), (dim,), norm)
    return result


def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: form.NormName = None) -> Tensor:
    """Return the real transform of numbers that are Hermitian in time, given by their first half."""
    result: Tensor = form.hermitian_to_real("hfft", input, _points("hfft", n), (dim,), norm)
    return result


def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: form.NormName = None) -> Tensor:
    """Return the first half of the inverse transform of real numbers; the inverse of `hfft`."""
    result: Tensor = form.real_to_hermitian("ihfft", input, _points("ihfft", n), (dim,), norm)
    return result


def fft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: form.NormName = None
) -> Tensor:
    """Return the transform over two dims, the last ones if not given; see `fftn`."""
    result: Tensor = form.complex_to_complex("fft2", input, s, dim, norm, False)
    return result


def ifft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: form.NormName = None
) -> Tensor:
    """Return the inverse transform over two dims, the last ones if not given; see `fftn`."""
    result: Tensor = form.complex_to_complex("ifft2", input, s, dim, norm, True)
    return result


def rfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: form.NormName = None
) -> Tensor:
    """Return half of the transform of real numbers over two dims; see `rfftn`."""
    result: Tensor = form.real_to_complex("rfft2", input, s, dim, norm)
    return result


def irfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: form.NormName = None
) -> Tensor:
    """Return the real numbers of which `input` is half of the transform over two dims; see `irfftn`."""
    result: Tensor = form.complex_to_real("irfft2", input, s, dim, norm)
    return result


def hfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: form.NormName = None
) -> Tensor:
    """Return the real transform over two dims of what is Hermitian in time; see `hfftn`."""
    result: Tensor = form.hermitian_to_real("hfft2", input, s, dim, norm)
    return result


def ihfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: form.NormName = None
) -> Tensor:
    """Return half of the inverse transform of real numbers over two dims; see `ihfftn`."""
    result: Tensor = form.real_to_hermitian("ihfft2", input, s, dim, norm)
    return result


def fftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: form.NormName = None) -> Tensor:
    """Return the transform over several dims.

    Parameters
    ----------
    input : Tensor, real or complex
    s : sequence of int, optional
        Number of points along each of `dim`; -1, or no `s`, for the size there is.
    dim : int or sequence of int, optional
        If not given, all dims; with `s` the last ``len(s)`` dims.
    norm : "backward", "ortho" or "forward", optional

    Returns
    -------
    Tensor, complex
    """
    result: Tensor = form.complex_to_complex("fftn", input, s, dim, norm, False)
    return result


def ifftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: form.NormName = None) -> Tensor:
    """Return the inverse transform over several dims; see `fftn`."""
    result: Tensor = form.complex_to_complex("ifftn", input, s, dim, norm, True)
    return result


def rfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: form.NormName = None) -> Tensor:
    """Return the transform of real numbers over several dims; of the last of them the first half."""
    result: Tensor = form.real_to_complex("rfftn", input, s, dim, norm)
    return result


def irfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: form.NormName = None) -> Tensor:
    """Return the real numbers of which `input` is the transform, given by half along the last of `dim`."""
    result: Tensor = form.complex_to_real("irfftn", input, s, dim, norm)
    return result


def hfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: form.NormName = None) -> Tensor:
    """Return the real transform of what is Hermitian in time, given by half along the last of `dim`."""
    result: Tensor = form.hermitian_to_real("hfftn", input, s, dim, norm)
    return result


def ihfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: form.NormName = None) -> Tensor:
    """Return the inverse transform of real numbers, half of the last of `dim`; undoes `hfftn`."""
    result: Tensor = form.real_to_hermitian("ihfftn", input, s, dim, norm)
    return result


def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Return with the zero frequency moved to the middle of each of `dim` (all, if not given)."""
    result: Tensor = form.shifted("fftshift", input, dim, back=False)
    return result


def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Return with the zero frequency moved from the middle of each of `dim` to its start."""
    result: Tensor = form.shifted("ifftshift", input, dim, back=True)
    return result


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequencies of the elements of an `fft`, in cycles per unit of `d`.

    Parameters
    ----------
    n : int
        Number of points.
    d : float, default 1.0
        Distance between points.
    dtype : dtype, default float32
    device : str, optional
    requires_grad : bool

    Examples
    --------
    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype, device, requires_grad)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequencies of the elements of an `rfft`; see `fftfreq`."""
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype, device, requires_grad)


def _frequencies(
    op: str, function: Any, n: int, d: float, dtype: DTypeLike | None, device: str | None, requires_grad: bool
) -> Tensor:
    if n < 1:
        raise ArgumentError(f"{op}: wanted at least one point, got n={n}")
    values = function(n, d).astype(np.float32 if dtype is None else dtype)
    return Tensor(get_backend(device or "cpu").asarray(values), requires_grad)


def _points(op: str, n: int | None) -> tuple[int] | None:
    if n is None:
        return None
    if n < 1:
        raise ArgumentError(f"{op}: wanted at least one point, got n={n}")
    return (n,)
