"""Picking elements, and putting them in, by index."""

from __future__ import annotations

from typing import Any, Self

from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.ops import index

__all__ = ["Selection"]


class Selection(Carrier):
    """What is chosen by indices."""

    def __getitem__(self, key: Any) -> Self:
        plain = index.plain_index(key)
        if index.is_basic(plain):
            return index.Slice.apply(self, index=plain)
        return index.Index.apply(self, index=plain)

    def take_along_dim(self, indices: Any, dim: int) -> Self:
        """Return, per position of `indices`, the value that it names along `dim`."""
        return index.TakeAlong.apply(self, indices, dim=dim)
