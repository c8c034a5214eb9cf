"""Layers that drop at random."""

from __future__ import annotations

from shardwise.nn import functional
from shardwise.nn.functions.dropout import check_probability
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["Dropout"]


class Dropout(Module):
    """Drop elements at random while training; see `functional.dropout`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        check_probability("Dropout", "p", p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop, or pass on outside training."""
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Show the probability."""
        return f"p={self.p}"
