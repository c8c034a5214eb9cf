"""Softmax and its relatives, as layers."""

from __future__ import annotations

from shardwise.backend.errors import ShapeError
from shardwise.nn import functional
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class Softmax(Module):
    """Exponentials that sum to one along `dim`; see `functional.softmax`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply along the dim."""
        return functional.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Show the dim."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of the softmax along `dim`; see `functional.log_softmax`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply along the dim."""
        return functional.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Show the dim."""
        return f"dim={self.dim}"


class Softmin(Module):
    """The softmax of the negative along `dim`; see `functional.softmin`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply along the dim."""
        return functional.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Show the dim."""
        return f"dim={self.dim}"


class Softmax2d(Module):
    """The softmax over the channels of images, (n, c, h, w) or (c, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply along the third dim from the end."""
        if isinstance(input, Tensor) and input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: input must have shape (n, c, h, w) or (c, h, w), got {input.shape}")
        return functional.softmax(input, -3)
