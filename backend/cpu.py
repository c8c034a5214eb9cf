"""The CPU: NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ArgumentError, DeviceError

__all__ = ["CpuBackend"]


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """NumPy arrays in the memory of the host; see :class:`~shardwise.backend.protocol.Backend`."""

    name: str = "cpu"

    def available(self) -> tuple[bool, str]:
        return True, ""

    def owns(self, array: object) -> bool:
        return isinstance(array, np.ndarray | np.generic)

    def asarray(self, obj: object, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        try:
            return np.array(obj, dtype=dtype, copy=copy)
        except ValueError as error:
            if copy is not False:
                raise
            raise ArgumentError(f"asarray: copy=False, and a copy would be needed: {error}") from error

    def to_host(self, array: Array) -> Array:
        return array

    def empty(self, shape: Shape, dtype: DTypeLike) -> Array:
        return np.empty(shape, dtype)

    def device_of(self, array: Array) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, index: int) -> None:
        if index != 0:
            raise DeviceError(f"there is one CPU device, number 0; got {index}. Use device 'cpu'.")

    def synchronize(self) -> None:
        """Return at once: NumPy has finished when a call returns."""
