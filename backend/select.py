"""Choose a backend, by the name of a device or by the kind of an array."""

from __future__ import annotations

from shardwise.backend.cpu import CpuBackend
from shardwise.backend.cuda import CudaBackend
from shardwise.backend.errors import DeviceError
from shardwise.backend.protocol import Backend
from shardwise.backend.shape_backend import ShapeBackend

__all__ = ["BACKENDS", "backend_of", "get_backend", "is_device"]

BACKENDS: tuple[Backend, ...] = (CpuBackend(), CudaBackend(), ShapeBackend())
"""Every backend there is; one file and one entry here make another."""


def backend_of(array: object) -> Backend:
    """The backend whose kind `array` is of.

    Raises
    ------
    DeviceError
        If it is of no kind that is known here.

    Examples
    --------
    >>> import numpy as np
    >>> backend_of(np.zeros(3)).name
    'cpu'
    """
    for backend in BACKENDS:
        if backend.owns(array):
            return backend
    own: Backend | None = getattr(array, "backend", None)
    if own is not None:  # an array made of such, spread over ranks
        return own
    kind = type(array)
    raise DeviceError(
        f"no backend holds objects of type {kind.__module__}.{kind.__qualname__}: wanted a NumPy or CuPy "
        "array, or a ShapeArray. Convert it with numpy.asarray."
    )


def is_device(name: object) -> bool:
    """Tell whether `name` is written like a device, such as ``"cuda:1"``; it may still not be there.

    Examples
    --------
    >>> is_device("cpu"), is_device("float32")
    (True, False)
    """
    return isinstance(name, str) and name.partition(":")[0] in {backend.name for backend in BACKENDS}


def get_backend(device: str = "auto") -> Backend:
    """The backend for a device.

    Parameters
    ----------
    device : str, default "auto"
        ``"cpu"``, ``"cuda"`` (the current one), ``"cuda:1"``, ``"shape"`` (no data, for dry runs), or
        ``"auto"``: CUDA where it is available, else the CPU.

    Raises
    ------
    DeviceError
        If the name is not one of these, or the device is not available; says why and what to do.

    Examples
    --------
    >>> get_backend("cpu").device_count()
    1
    """
    if device == "auto":
        cuda = CudaBackend()
        return cuda if cuda.available()[0] else CpuBackend()
    backend = _named(device)
    usable, reason = backend.available()
    if not usable:
        raise DeviceError(f"cannot use device {device!r}: {reason}")
    return backend


def _named(device: str) -> Backend:
    name, colon, number = device.partition(":")
    for backend in BACKENDS:
        if backend.name == name:
            if not colon:
                return backend
            if name == "cuda" and number.isdecimal():
                return CudaBackend(int(number))
            if number == "0":
                return backend
    raise DeviceError(
        f"there is no device {device!r}: wanted 'auto', 'cpu', 'cuda', 'cuda:<number>' or 'shape'."
    )
