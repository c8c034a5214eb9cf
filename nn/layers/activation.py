"""Activations as layers."""

from __future__ import annotations

from typing import Literal

from shardwise.nn import functional
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["GELU", "ReLU"]


class GELU(Module):
    """``x * Phi(x)``; see `functional.gelu`."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        super().__init__()
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """Show the variant."""
        return f"approximate={self.approximate!r}"


class ReLU(Module):
    """The positive part."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.relu(x)
