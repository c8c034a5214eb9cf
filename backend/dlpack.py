"""DLPack both ways, bfloat16 included, which NumPy does not know.

A capsule holds a C struct whose dtype is four bytes at a known place (the specification's
``DLManagedTensor`` and, from version 1, ``DLManagedTensorVersioned``). bfloat16 goes through NumPy as
uint16: its mark is changed in the capsule on the way in or out, and the array is looked at anew.

References
----------
`The specification <https://dmlc.github.io/dlpack/latest/c_api.html>`_, dlpack.h.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from shardwise.backend import dlpack_cuda
from shardwise.backend.array import Array
from shardwise.backend.errors import DeviceError, DTypeError
from shardwise.backend.select import backend_of

__all__ = ["SupportsDLPack", "dlpack_device", "from_dlpack", "to_dlpack"]

_HOST = (1, 3, 11, 13)  # kDLCPU, and memory of CUDA and ROCm that the host can read
_CUDA = 2
_BFLOAT16, _UINT16 = bytes([4, 16, 1, 0]), bytes([1, 16, 1, 0])  # code, bits, lanes
# Where the dtype lies: behind data, device and ndim; the newer struct has a version, two pointers and
# flags in front.
_DTYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}


class SupportsDLPack(Protocol):
    """What another library's array offers."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


def from_dlpack(source: SupportsDLPack) -> Array:
    """Return an array over the memory of another library's array.

    Parameters
    ----------
    source : object with ``__dlpack__`` and ``__dlpack_device__``
        On the CPU or on a CUDA device.

    Returns
    -------
    array
        NumPy's or CuPy's. It cannot be written into if the source cannot, or does not say.

    Raises
    ------
    DTypeError
        `source` is no such object, or has a dtype that is not known here.
    DeviceError
        It is on another kind of device.
    """
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise DTypeError(
            f"from_dlpack: wanted an array with __dlpack__, got {type(source).__name__}; sw.tensor() takes "
            "lists and numbers"
        )
    kind = int(source.__dlpack_device__()[0])
    if kind not in (*_HOST, _CUDA):
        raise DeviceError(
            f"from_dlpack: wanted an array on the CPU or a CUDA device, got DLPack device {kind}"
        )
    marked = _Marked(source)
    try:
        array: Array = dlpack_cuda.from_dlpack(marked) if kind == _CUDA else np.from_dlpack(marked)
    except (BufferError, RuntimeError, ValueError) as error:
        raise DTypeError(f"from_dlpack: cannot take over this {type(source).__name__}: {error}") from error
    return array.view(ml_dtypes.bfloat16) if marked.bfloat16 else array


def to_dlpack(array: Array, **options: Any) -> Any:
    """Return the capsule of an array: what its ``__dlpack__(**options)`` gives, for bfloat16 as well.

    Memory with negative strides is copied, because PyTorch ends the process when it meets them.
    """
    _check_holds_data(array)
    if any(stride < 0 for stride in array.strides):
        if options.get("copy") is False:
            raise BufferError(
                f"__dlpack__: cannot share memory with the negative strides {array.strides}; clone() it first"
            )
        array = array.copy()
    if array.dtype != ml_dtypes.bfloat16:
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    _retag(capsule, _UINT16, _BFLOAT16)
    return capsule


def dlpack_device(array: Array) -> tuple[int, int]:
    """Return DLPack's numbers for where an array lies: the kind of device, and which."""
    _check_holds_data(array)
    kind, index = array.__dlpack_device__()
    return int(kind), int(index)


class _Marked:
    """An array whose capsules say uint16 where they said bfloat16."""

    def __init__(self, source: SupportsDLPack) -> None:
        self.source = source
        self.bfloat16 = False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        self.bfloat16 = _retag(capsule, _BFLOAT16, _UINT16)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.source.__dlpack_device__()


def _retag(capsule: Any, before: bytes, after: bytes) -> bool:
    """Change the dtype of a capsule, if it is the one given; it is nobody else's before it is consumed."""
    name = _capsule_name(capsule)
    at = _DTYPE_AT.get(name)
    if at is None:
        return False
    place = _capsule_pointer(capsule, name) + at
    if ctypes.string_at(place, 4) != before:
        return False
    ctypes.memmove(place, after, 4)
    return True


def _check_holds_data(array: Array) -> None:
    if backend_of(array).name == "shape":
        raise DeviceError("__dlpack__: a tensor without data (device 'shape') has no memory to share")


_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
