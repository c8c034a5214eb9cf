"""Writing into chosen places of a tensor: assignment by index, and the in-place forms of scatter."""

from __future__ import annotations

from typing import Any

from shardwise.backend.errors import AutogradError
from shardwise.tensor.methods.in_place import InPlace
from shardwise.tensor.mode import current_mode

__all__ = ["Assignment"]


class Assignment(InPlace):
    """What changes some elements of a tensor."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if current_mode().grad and (
            self.requires_grad or (isinstance(value, InPlace) and value.requires_grad)
        ):
            raise AutogradError("assignment by index is not recorded; do it under no_grad(), or use where()")
        self.data[key.data if isinstance(key, InPlace) else key] = (
            value.data if isinstance(value, InPlace) else value
        )
        self.version.count += 1
