"""Rearranging dims and cutting up; dims are given as in PyTorch (``dim``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from shardwise.backend.errors import ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.ops import triangle, view

__all__ = ["Rearrangement"]


class Rearrangement(Carrier):
    """What moves the elements of a tensor without changing them."""

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the elements in another shape; one size may be -1."""
        return view.Reshape.apply(self, shape=self._full_shape(_ints(shape)))

    view = reshape

    def _full_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        size = self.data.size
        known = math.prod(n for n in shape if n != -1)
        free = shape.count(-1)
        sensible = min(shape, default=0) >= -1
        if sensible and free == 1 and known and size % known == 0:
            return tuple(size // known if n == -1 else n for n in shape)
        if free or known != size or not sensible:
            raise ShapeError(
                f"cannot reshape {self.data.shape} ({size} elements) to {shape}; "
                "the sizes must multiply to the same number, with at most one -1"
            )
        return shape

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Return the dims from `start_dim` to `end_dim` merged into one."""
        shape = self.data.shape or (1,)
        start, end = (counted_dim("flatten", dim, len(shape)) for dim in (start_dim, end_dim))
        if start > end:
            raise ShapeError(f"flatten: start_dim={start_dim} lies behind end_dim={end_dim}; swap them")
        return self.reshape(*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])

    def permute(self, *dims: int | Sequence[int]) -> Self:
        """Return the dims in another order."""
        return view.Permute.apply(self, dims=_ints(dims))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Return two dims swapped."""
        ndim = self.data.ndim
        order = list(range(ndim))
        a, b = counted_dim("transpose", dim0, ndim), counted_dim("transpose", dim1, ndim)
        if ndim:
            order[a], order[b] = b, a
        return view.Permute.apply(self, dims=tuple(order))

    swapaxes = transpose

    @property
    def T(self) -> Self:
        """The dims in reverse order."""
        return view.Permute.apply(self, dims=tuple(range(self.data.ndim))[::-1])

    @property
    def mT(self) -> Self:
        """The last two dims swapped."""
        return self.transpose(-1, -2)

    def squeeze(self, dim: int | None = None) -> Self:
        """Return without dims of size one: all of them, or `dim` if it is one."""
        shape = self.data.shape
        gone = range(len(shape)) if dim is None else (counted_dim("squeeze", dim, len(shape)),)
        return self.reshape([n for i, n in enumerate(shape) if n != 1 or i not in gone])

    def unsqueeze(self, dim: int) -> Self:
        """Return with a dim of size one put in at `dim`."""
        shape = list(self.data.shape)
        shape.insert(counted_dim("unsqueeze", dim, len(shape) + 1), 1)
        return self.reshape(shape)

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Return dims of size one repeated, without copying; -1 keeps a size."""
        wanted = _ints(shape)
        have = (1,) * (len(wanted) - self.data.ndim) + self.data.shape
        if len(have) != len(wanted):
            raise ShapeError(f"cannot expand {self.data.shape} to {wanted}, which has fewer dims")
        return view.Expand.apply(
            self, shape=tuple(h if n == -1 else n for n, h in zip(wanted, have, strict=True))
        )

    def split(self, size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Return pieces of `size` along `dim` (the last may be smaller), or of the sizes given."""
        if not self.data.ndim or (isinstance(size, int) and size < 1):
            raise ShapeError(f"split: cannot cut shape {self.data.shape} into pieces of {size}")
        dim = counted_dim("split", dim, self.data.ndim)
        total = self.data.shape[dim]
        sizes = [min(size, total - i) for i in range(0, total, size)] if isinstance(size, int) else list(size)
        if sum(sizes) != total:
            raise ShapeError(f"split sizes {sizes} add up to {sum(sizes)}, but dim {dim} has {total}")
        pieces: Any = view.Split.apply(self, sizes=tuple(sizes), dim=dim)
        return tuple(pieces)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Return at most `chunks` pieces of equal size along `dim`; the last may be smaller."""
        if not self.data.ndim or chunks < 1:
            raise ShapeError(f"chunk: cannot cut shape {self.data.shape} into {chunks} pieces")
        dim = counted_dim("chunk", dim, self.data.ndim)
        return self.split(max(1, -(-self.data.shape[dim] // chunks)), dim)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the slices along `dim`, without it."""
        if not self.data.ndim:
            raise ShapeError("unbind: a tensor without dims has no slices")
        pieces: Any = view.Unbind.apply(self, dim=counted_dim("unbind", dim, self.data.ndim))
        return tuple(pieces)

    def tril(self, diagonal: int = 0) -> Self:
        """Return the lower triangle of the last two dims."""
        return triangle.Tril.apply(self, k=diagonal)

    def triu(self, diagonal: int = 0) -> Self:
        """Return the upper triangle of the last two dims."""
        return triangle.Triu.apply(self, k=diagonal)


def _ints(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Accept ``f(2, 3)`` and ``f((2, 3))``."""
    if len(values) == 1 and not isinstance(values[0], (int, np.integer)):
        values = tuple(values[0])
    return tuple(int(v) for v in values)
