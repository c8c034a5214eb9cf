"""Layers that compute nothing, or give another shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["Flatten", "Identity", "Unflatten"]

T = TypeVar("T")


class Identity(Module):
    """What comes in. Takes any arguments, so that it can stand for any layer."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: T) -> T:
        """Return the input."""
        return input


class Flatten(Module):
    """One dim in the place of `start_dim` to `end_dim`."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Merge the dims."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Show the dims."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Several dims in the place of `dim`.

    Parameters
    ----------
    dim : int
    unflattened_size : sequence of int
        One of them may be -1: what is left.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Part the dim."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Show the dim and its parts."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
