"""Parameters and buffers of modules that lie over the ranks of a mesh."""

from __future__ import annotations

from typing import Any

from shardwise.dtensor.dtensor import DTensor
from shardwise.nn import Buffer, Parameter

__all__ = ["ShardedBuffer", "ShardedParameter"]


class ShardedParameter(Parameter, DTensor):
    """A `Parameter` that is a DTensor: what ``Parameter(x)`` gives of a DTensor ``x``."""

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        DTensor.__init__(self, data.data if isinstance(data, DTensor) else data, requires_grad)

    def __str__(self) -> str:
        return f"Parameter({super().__str__()})"


class ShardedBuffer(Buffer, DTensor):
    """A `Buffer` that is a DTensor: what ``Buffer(x)`` gives of a DTensor ``x``."""

    def __init__(self, data: Any, persistent: bool = True) -> None:
        DTensor.__init__(self, data.data if isinstance(data, DTensor) else data)
        self.persistent = persistent


DTensor.parameter_class = ShardedParameter
DTensor.buffer_class = ShardedBuffer
