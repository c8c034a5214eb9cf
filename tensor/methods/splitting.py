"""Cutting views out of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, IndexRangeError, ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.ops import index as indexing
from shardwise.tensor.ops import sliding, triangle, view

__all__ = ["Splitting"]


class Splitting(Carrier):
    """What cuts a tensor into pieces, or a piece out of it, without copying."""

    @numpy_names
    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Return pieces of `split_size` along `dim` (the last may be smaller), or of the sizes given."""
        if not self.data.ndim or (isinstance(split_size, (int, np.integer)) and split_size < 1):
            raise ShapeError(f"split: cannot cut shape {self.data.shape} into pieces of {split_size}")
        dim = counted_dim("split", dim, self.data.ndim)
        total = self.data.shape[dim]
        if isinstance(split_size, (int, np.integer)):
            sizes = [min(int(split_size), total - i) for i in range(0, total, int(split_size))] or [0]
        else:
            sizes = list(split_size)
            if sum(sizes) != total or min(sizes, default=0) < 0:
                raise ShapeError(f"split sizes {sizes} add up to {sum(sizes)}, but dim {dim} has {total}")
        return self._pieces(sizes, dim)

    @numpy_names
    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Return at most `chunks` pieces of equal size along `dim`; the last may be smaller."""
        if not self.data.ndim or chunks < 1:
            raise ShapeError(f"chunk: cannot cut shape {self.data.shape} into {chunks} pieces")
        dim = counted_dim("chunk", dim, self.data.ndim)
        total = self.data.shape[dim]
        return self.split(-(-total // chunks), dim) if total else self._pieces([0] * chunks, dim)

    @numpy_names
    def tensor_split(
        self, indices_or_sections: int | Sequence[int] | Carrier | Array, dim: int = 0
    ) -> tuple[Self, ...]:
        """Return exactly so many pieces along `dim`, as equal as can be, or the pieces between indices."""
        if not self.data.ndim:
            raise ShapeError("tensor_split: a tensor without dims cannot be cut")
        dim = counted_dim("tensor_split", dim, self.data.ndim)
        total = self.data.shape[dim]
        given: Any = (
            indices_or_sections.data if isinstance(indices_or_sections, Carrier) else indices_or_sections
        )
        if np.ndim(given) == 0:
            sections = int(given)
            if sections < 1:
                raise ArgumentError(f"tensor_split: wanted at least one section, got {sections}")
            return self._pieces([total // sections + (i < total % sections) for i in range(sections)], dim)
        # As slices do, places count from the end if negative, and stop at the ends.
        cuts = [slice(int(cut)).indices(total)[1] for cut in given]
        starts, ends = [0, *cuts], [*cuts, total]
        if all(start <= end for start, end in zip(starts, ends, strict=True)):
            return self._pieces([end - start for start, end in zip(starts, ends, strict=True)], dim)
        head = (slice(None),) * dim
        return tuple(
            [
                indexing.Slice.apply(self, index=(*head, slice(start, max(start, end))))
                for start, end in zip(starts, ends, strict=True)
            ]
        )

    def hsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Self, ...]:
        """Return pieces along the second dim, or the only one: equal ones, or those between indices."""
        return self._even("hsplit", indices_or_sections, min(1, self.data.ndim - 1), 1)

    def vsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Self, ...]:
        """Return pieces along the first of two or more dims: equal ones, or those between indices."""
        return self._even("vsplit", indices_or_sections, 0, 2)

    def dsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Self, ...]:
        """Return pieces along the third dim: equal ones, or those between indices."""
        return self._even("dsplit", indices_or_sections, 2, 3)

    def _even(self, op: str, given: int | Sequence[int], dim: int, ndim: int) -> tuple[Self, ...]:
        shape = self.data.shape
        if len(shape) < ndim:
            raise ShapeError(f"{op}: wanted at least {ndim} dims, got the shape {shape}")
        if isinstance(given, int) and (given < 1 or shape[dim] % given):
            raise ShapeError(f"{op}: dim {dim} of shape {shape} does not part into {given} equal pieces")
        return self.tensor_split(given, dim)

    def _pieces(self, sizes: Sequence[int], dim: int) -> tuple[Self, ...]:
        if not sizes:
            return ()
        pieces: Any = view.Split.apply(self, sizes=tuple(sizes), dim=dim)
        return tuple(pieces)

    @numpy_names
    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the slices along `dim`, without it."""
        if not self.data.ndim:
            raise ShapeError("unbind: a tensor without dims has no slices")
        dim = counted_dim("unbind", dim, self.data.ndim)
        if not self.data.shape[dim]:
            return ()
        pieces: Any = view.Unbind.apply(self, dim=dim)
        return tuple(pieces)

    @numpy_names
    def narrow(self, dim: int, start: int, length: int) -> Self:
        """Return `length` places along `dim`, from `start` on; a negative start counts from the end."""
        if not self.data.ndim:
            raise ShapeError("narrow: a tensor without dims cannot be cut")
        dim = counted_dim("narrow", dim, self.data.ndim)
        total, first = self.data.shape[dim], int(start)
        first = first + total if first < 0 else first
        if not 0 <= first <= first + length <= total:
            raise IndexRangeError(
                f"narrow: dim {dim} has size {total}, and {length} places from {start} on do not lie in it"
            )
        return indexing.Slice.apply(self, index=(slice(None),) * dim + (slice(first, first + length),))

    @numpy_names
    def select(self, dim: int, index: int) -> Self:
        """Return the slice at `index` along `dim`, without it."""
        if not self.data.ndim:
            raise ShapeError("select: a tensor without dims has no slices")
        dim = counted_dim("select", dim, self.data.ndim)
        total, place = self.data.shape[dim], int(index)
        if not -total <= place < total:
            raise IndexRangeError(
                f"select: index {place} is out of range for dim {dim} of size {total}; wanted {-total} to "
                f"{total - 1}"
            )
        return indexing.Slice.apply(self, index=(slice(None),) * dim + (place,))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """Return the diagonal `offset` above the main one of two dims, as the last dim of a view."""
        ndim = self.data.ndim
        a, b = counted_dim("diagonal", dim1, ndim), counted_dim("diagonal", dim2, ndim)
        if a == b:
            raise ShapeError(f"diagonal: dim1 and dim2 are both {a}; wanted two dims of {self.data.shape}")
        return triangle.Diagonal.apply(self, offset=offset, dim1=a, dim2=b)

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """Return the windows of `size` over a dim, `step` apart.

        Their number takes the place of the dim, and their elements lie along a new last dim. On the CPU
        the result is a view, which cannot be written; on a GPU it is a copy.
        """
        shape = self.data.shape
        dim = counted_dim("unfold", dimension, len(shape))
        length = shape[dim] if shape else 1
        if not 0 <= size <= length or step < 1:
            raise ShapeError(
                f"unfold: windows of {size}, {step} apart, do not fit dim {dim} of shape {shape}; wanted a "
                f"size of at most {length} and a step of at least 1"
            )
        if not shape:  # one window, which is no dim of its own
            return view.Reshape.apply(self, shape=(1,)).narrow(0, 0, size)
        return sliding.Slide.apply(self, dim=dim, size=size, step=step)
