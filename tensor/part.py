"""Tensors that are made part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardwise.backend.array import Array, Shape
from shardwise.tensor.signature import Part

__all__ = ["in_parts", "part_of"]


def part_of(shape: Shape) -> Part:
    """Return the part that is all.

    Examples
    --------
    >>> part_of((2, 3))
    Part(offset=(0, 0), shape=(2, 3), whole=(2, 3))
    """
    return Part((0,) * len(shape), shape, shape)


def in_parts(tensor: Any, make: Callable[[Part, Array], Array]) -> Any:
    """Return a tensor, without history, that lies as another one does, made part by part.

    Parameters
    ----------
    tensor : Tensor
    make : callable
        ``make(part, local)`` gives an array of the shape ``part.shape``; `local` is that of `tensor`.
    """
    return tensor.wrap(tensor._parted(make))
