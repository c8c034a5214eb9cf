"""No device at all: arrays that hold a shape and a dtype, for dry runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ArgumentError, DeviceError
from shardwise.backend.shape import ShapeArray
from shardwise.backend.stand_in import data_dependent

__all__ = ["ShapeBackend"]


@dataclass(frozen=True, slots=True)
class ShapeBackend:
    """:class:`ShapeArray` under the common protocol; see :class:`~shardwise.backend.protocol.Backend`."""

    name: str = "shape"

    def available(self) -> tuple[bool, str]:
        return True, ""

    def owns(self, array: object) -> bool:
        return isinstance(array, ShapeArray)

    def asarray(self, obj: object, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False and not isinstance(obj, ShapeArray):
            raise ArgumentError("asarray: copy=False, and the shape of an array with data is a new array.")
        # Arrays of every kind say their shape and dtype; all else becomes one first.
        shape, kind = getattr(obj, "shape", None), getattr(obj, "dtype", None)
        if shape is None or kind is None:
            array = np.asarray(obj)
            shape, kind = array.shape, array.dtype
        return self.empty(shape, kind if dtype is None else dtype)

    def to_host(self, array: Array) -> Array:
        raise data_dependent("to_host")

    def empty(self, shape: Shape, dtype: DTypeLike) -> Array:
        # Through NumPy's own door, which gives an array of the kind of `like`.
        return np.empty(shape, dtype, like=ShapeArray(()))

    def device_of(self, array: Array) -> str:
        return "shape"

    def device_count(self) -> int:
        return 1

    def set_device(self, index: int) -> None:
        if index != 0:
            raise DeviceError(f"there is one 'shape' device, number 0; got {index}.")

    def synchronize(self) -> None:
        """Return at once: there is no work to wait for."""
