"""Make tensors: of values, of ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import dlpack
from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.tensor.fresh import array_of, moved, read_shape
from shardwise.tensor.tensor import Tensor

__all__ = [
    "arange", "as_tensor", "asarray", "eye", "from_dlpack", "from_numpy", "linspace", "logspace",
    "scalar_tensor", "tensor",
]  # fmt: skip


# ---- of values


def tensor(
    data: Any, dtype: DTypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor with the values of `data`, copied.

    Parameters
    ----------
    data : number, nested sequence, array or Tensor
        Arrays keep their dtype, those of other libraries too (``__array__``, DLPack); Python floats
        become float32, ints int64, bools bool, complex numbers complex64.
    dtype : dtype, optional
    device : str, optional
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. Where the data is, if not given.
    requires_grad : bool

    Raises
    ------
    DTypeError
        The values are neither numbers nor booleans.
    ShapeError
        Nested sequences of different lengths.
    """
    return Tensor(array_of(data, dtype, device, copy=True), requires_grad)


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a tensor over the memory of `data` where that is possible; see `tensor`.

    A Tensor comes back as it is, or as ``data.to(device, dtype)`` with its history.
    """
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    return Tensor(array_of(data, dtype, device))


def asarray(
    obj: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor without history over the memory of `obj`, or over a copy.

    Parameters
    ----------
    obj, dtype, device, requires_grad
        As for `tensor`.
    copy : bool, optional
        True copies always, False never (and raises ArgumentError where it would have to), None if
        need be.
    """
    return Tensor(array_of(obj, dtype, device, copy), requires_grad)


def from_numpy(array: np.ndarray[Any, np.dtype[Any]]) -> Tensor:
    """Return a tensor over the memory of a NumPy array."""
    return as_tensor(array)


def from_dlpack(
    source: dlpack.SupportsDLPack, *, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """Return a tensor over the memory of another library's array, such as PyTorch's or JAX's.

    Parameters
    ----------
    source : object with ``__dlpack__`` and ``__dlpack_device__``
        On the CPU or on a CUDA device; bfloat16 is understood.
    device : str, optional
        Where the tensor shall be; where `source` is, if not given.
    copy : bool, optional
        As for `asarray`.

    Raises
    ------
    DTypeError
        `source` is no such object, or cannot be taken over.
    DeviceError
        It is on another kind of device.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros(2)
    >>> t = from_dlpack(x)
    >>> x[0] = 1.0
    >>> t.tolist()
    [1.0, 0.0]
    """
    return Tensor(array_of(dlpack.from_dlpack(source), device=device, copy=copy))


def scalar_tensor(
    value: complex,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a number as a tensor without dims; float32, whatever the number, if not told otherwise."""
    return tensor(value, dtype or np.float32, device, requires_grad)


# ---- of ranges


def arange(
    *bounds: float,
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return evenly spaced numbers: ``arange(end)``, ``arange(start, end)``, ``arange(start, end, step)``.

    Parameters
    ----------
    *bounds, start, end, step : number
        `end` is not among the results.
    dtype : dtype, optional
        int64 if all are integers, else float32.

    Raises
    ------
    ArgumentError
        There is no `end`, or `step` is 0 or leads away from it.
    """
    if len(bounds) == 1:
        (end,) = bounds
    elif bounds:
        start, end = bounds[:2]
        step = bounds[2] if len(bounds) == 3 else step
    if end is None or len(bounds) > 3:
        raise ArgumentError(f"arange: wanted (end), (start, end) or (start, end, step), got {bounds}")
    if step == 0 or (end - start) / step < 0:
        raise ArgumentError(f"arange: cannot go from {start} to {end} by steps of {step}")
    array = np.arange(start, end, step)
    if dtype is None and array.dtype.kind == "f":
        dtype = np.float32
    return Tensor(moved(array if dtype is None else array.astype(dtype), device), requires_grad)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `steps` evenly spaced numbers from `start` to `end`, both included.

    float32, if no dtype is given.
    """
    return Tensor(
        moved(_spaced("linspace", start, end, steps).astype(dtype or np.float32), device), requires_grad
    )


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `base` to the power of `steps` evenly spaced numbers from `start` to `end`."""
    array = np.power(float(base), _spaced("logspace", start, end, steps))
    return Tensor(moved(array.astype(dtype or np.float32), device), requires_grad)


def _spaced(name: str, start: float, end: float, steps: int) -> Array:
    if steps < 0:
        raise ArgumentError(f"{name}: wanted steps of 0 or more, got {steps}")
    return np.linspace(float(start), float(end), steps)


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a matrix of shape (n, m), square by default, with ones on its diagonal and zeros elsewhere."""
    rows, columns = read_shape((n, n if m is None else m))
    return Tensor(moved(np.eye(rows, columns, dtype=np.dtype(dtype or np.float32)), device), requires_grad)
