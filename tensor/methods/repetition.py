"""Turning around, rotating and repeating."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.backend.select import backend_of
from shardwise.tensor.dim import counted_dim, counted_dims
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.methods.rearrangement import Rearrangement
from shardwise.tensor.ops import arithmetic, repetition, take
from shardwise.tensor.size import Sizes, integers

__all__ = ["Repetition"]


class Repetition(Rearrangement):
    """What copies the elements of a tensor to other places, or to several."""

    def flip(self, *places: Sizes, dims: Sizes | None = None) -> Self:
        """Return the elements along dims in reverse order, ``flip(0, 1)`` or ``flip((0, 1))``: a copy."""
        return repetition.Flip.apply(self, dims=counted_dims("flip", integers(places, dims), self.data.ndim))

    def fliplr(self) -> Self:
        """Return the elements along the second dim in reverse order."""
        if self.data.ndim < 2:
            raise ShapeError(f"fliplr: wanted at least two dims, got the shape {self.data.shape}")
        return self.flip(1)

    def flipud(self) -> Self:
        """Return the elements along the first dim in reverse order."""
        if self.data.ndim < 1:
            raise ShapeError("flipud: wanted at least one dim, got the shape ()")
        return self.flip(0)

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """Return the elements moved on along `dims`; those that leave come in on the other side.

        Parameters
        ----------
        shifts : int or sequence of int
            How far, per dim; one number holds for all dims.
        dims : int or sequence of int, optional
            Where not given, all elements are taken as in one dim.
        """
        if dims is None:
            shift = sum((shifts,) if isinstance(shifts, int) else shifts)
            rolled = repetition.Roll.apply(self.reshape(-1), shifts=(shift,), dims=(0,))
            return rolled.reshape(self.data.shape)
        places = (dims,) if isinstance(dims, int) else tuple(dims)
        moves = (shifts,) * len(places) if isinstance(shifts, int) else tuple(shifts)
        if len(moves) != len(places):
            raise ShapeError(
                f"roll: {moves} shifts {len(moves)} dims, but {len(places)} are named in {places}"
            )
        ndim = self.data.ndim
        counted = tuple([counted_dim("roll", dim, ndim) for dim in places])
        return repetition.Roll.apply(self, shifts=moves if ndim else (), dims=counted if ndim else ())

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Self:
        """Return the plane of two dims turned by `k` times 90 degrees, from the first towards the second."""
        ndim = self.data.ndim
        plane = tuple([counted_dim("rot90", dim, ndim) for dim in dims])
        if len(set(plane)) != 2 or len(plane) != 2 or ndim < 2:
            raise ShapeError(
                f"rot90: wanted two different dims of shape {self.data.shape}, got {tuple(dims)}"
            )
        first, second = plane
        match k % 4:
            case 0:
                return arithmetic.Clone.apply(self)
            case 1:
                return self.flip(second).transpose(first, second)
            case 2:
                return self.flip(first, second)
            case _:
                return self.transpose(first, second).flip(second)

    def repeat(self, *counts: Sizes, repeats: Sizes | None = None) -> Self:
        """Return the whole tensor so many times along each dim; more counts than dims add dims in front."""
        times = integers(counts, repeats)
        if len(times) < self.data.ndim:
            raise ShapeError(
                f"repeat: {times} has fewer counts than shape {self.data.shape} has dims; use tile(), or "
                "give one for each"
            )
        return self._tiled("repeat", times)

    def tile(self, *counts: Sizes, dims: Sizes | None = None) -> Self:
        """Return the whole tensor so many times along each of the last dims."""
        times = integers(counts, dims)
        return self._tiled("tile", (1,) * (self.data.ndim - len(times)) + times)

    def _tiled(self, op: str, counts: tuple[int, ...]) -> Self:
        if min(counts, default=0) < 0:
            raise ArgumentError(f"{op}: counts must be at least 0, got {counts}")
        return repetition.Tile.apply(self, repeats=counts)

    @numpy_names
    def repeat_interleave(
        self, repeats: int | Carrier | Array | Sequence[int], dim: int | None = None, *,
        output_size: int | None = None,
    ) -> Self:  # fmt: skip
        """Return each slice along `dim` several times in a row.

        Parameters
        ----------
        repeats : int, or Tensor or sequence of int
            How often: one number for all slices, or one for each.
        dim : int, optional
            Where not given, all elements are taken as in one dim.
        output_size : int, optional
            The sum of `repeats`, checked; it saves a GPU from waiting for the answer.
        """
        if dim is None:
            return self.reshape(-1).repeat_interleave(repeats, 0, output_size=output_size)
        if not self.data.ndim:
            return self.reshape(1).repeat_interleave(repeats, dim, output_size=output_size)
        dim = counted_dim("repeat_interleave", dim, self.data.ndim)
        size = self.data.shape[dim]
        given: Any = repeats.data if isinstance(repeats, Carrier) else repeats
        counts = backend_of(given).to_host(given) if hasattr(given, "dtype") else np.asarray(given)
        if counts.dtype.kind not in "iu" and counts.size:
            raise DTypeError(f"repeat_interleave: counts must be integers, not {counts.dtype}")
        if counts.ndim > 1 or counts.size not in (1, size):
            raise ShapeError(
                f"repeat_interleave: counts of shape {counts.shape} for dim {dim} of shape "
                f"{self.data.shape}; wanted one, or one for each of the {size} slices"
            )
        if counts.size and int(counts.min()) < 0:
            raise ArgumentError(f"repeat_interleave: counts must be at least 0, got {int(counts.min())}")
        total = int(counts.sum()) * (size if counts.size == 1 else 1)
        if output_size is not None and total != output_size:
            raise ShapeError(
                f"repeat_interleave: the counts add up to {total}, not to output_size={output_size}"
            )
        if counts.ndim == 0 or (counts.size == 1 and size != 1):
            return repetition.Repeat.apply(self, repeats=int(counts.reshape(-1)[0]), dim=dim)
        rows = np.repeat(np.arange(size), counts.astype(np.int64))
        chosen: Self = take.IndexSelect.apply(self, backend_of(self.data).asarray(rows), dim=dim)
        return chosen
