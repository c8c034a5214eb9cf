"""What a backend offers: the few things about arrays and devices that formulas cannot say in NumPy."""

from __future__ import annotations

from typing import Protocol

from shardwise.backend.array import Array, DTypeLike, Shape

__all__ = ["Backend"]


class Backend(Protocol):
    """One kind of array and the devices that it lives on.

    A backend is one file that satisfies this protocol, and one entry of ``BACKENDS`` in
    :mod:`shardwise.backend.select`.
    """

    @property
    def name(self) -> str:
        """``"cpu"``, ``"cuda"``, ``"shape"``."""
        ...

    def available(self) -> tuple[bool, str]:
        """Whether arrays can be made here; if not, the reason and what to do about it."""
        ...

    def owns(self, array: object) -> bool:
        """Whether `array` is of this backend's kind. Imports and starts nothing."""
        ...

    def asarray(self, obj: object, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """`obj` as an array of this kind, on the current device.

        Parameters
        ----------
        obj : array of any kind, number, or nested sequence
        dtype : dtype, optional
            That of `obj` by default.
        copy : bool, optional
            True always copies, False never does (and raises ArgumentError where it would have to), None
            copies if need be.
        """
        ...

    def to_host(self, array: Array) -> Array:
        """`array` as a NumPy array: itself on the CPU, a copy made when it is ready elsewhere."""
        ...

    def empty(self, shape: Shape, dtype: DTypeLike) -> Array:
        """An array whose values mean nothing yet."""
        ...

    def device_of(self, array: Array) -> str:
        """Where `array` lives: ``"cpu"``, ``"cuda:0"``, ``"shape"``."""
        ...

    def device_count(self) -> int:
        """How many devices of this kind there are; 0 where it is not available."""
        ...

    def set_device(self, index: int) -> None:
        """Make new arrays of this thread on device `index`.

        Raises
        ------
        DeviceError
            If there is no such device.
        """
        ...

    def synchronize(self) -> None:
        """Wait until the current device has done all that it was given."""
        ...
