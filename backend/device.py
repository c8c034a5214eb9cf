"""Names of devices."""

from __future__ import annotations

from typing import Self

from shardwise.backend.errors import DeviceError
from shardwise.backend.select import is_device

__all__ = ["Device", "device"]


class Device(str):
    """The name of a device, such as ``"cuda:1"``: a string that knows its parts.

    Examples
    --------
    >>> device = Device("cuda", 1)
    >>> device.type, device.index, device == "cuda:1"
    ('cuda', 1, True)
    """

    __slots__ = ()

    def __new__(cls, type: str | int, index: int | None = None) -> Self:
        """Read a name.

        Parameters
        ----------
        type : str or int
            A name, with or without a number; a number alone means a CUDA device.
        index : int, optional
            The number, if the name has none.

        Raises
        ------
        DeviceError
            It is not written like a device; one that is may still not be there.
        """
        name = f"cuda:{type}" if isinstance(type, int) else type
        if index is not None:
            name = f"{name}:{index}"
        kind, colon, number = name.partition(":")
        if not is_device(kind) or (colon and not number.isdecimal()):
            raise DeviceError(f"there is no device {name!r}: wanted 'cpu', 'cuda', 'cuda:1' or 'shape'")
        return super().__new__(cls, name)

    @property
    def type(self) -> str:
        """The kind of device: ``"cpu"``, ``"cuda"`` or ``"shape"``."""
        return self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]  # PyTorch's name, which hides that of strings
        """Its number among those of its kind, if the name says it."""
        number = self.partition(":")[2]
        return int(number) if number else None


device = Device  # PyTorch's name
