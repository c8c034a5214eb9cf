"""Copies of a tensor, and tensors that are sent elsewhere."""

from __future__ import annotations

from typing import Any

from shardwise.backend.errors import AutogradError
from shardwise.tensor.methods.carrier import Carrier

__all__ = ["Copying"]


class Copying(Carrier):
    """``copy.deepcopy`` and pickles of leaves."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self.node is not None:
            raise AutogradError("only leaves can be deep-copied; detach() first")
        kind: Any = type(self)
        out = kind(self.data.copy(), self.requires_grad)
        memo[id(self)] = out
        return out

    def __reduce__(self) -> Any:
        if self.node is not None:
            raise AutogradError("only leaves can be pickled; detach() first")
        return type(self), (self.data, self.requires_grad)
