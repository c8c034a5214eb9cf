"""Seeing the same elements in other dims; dims are given as in PyTorch (``dim``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, overload

import numpy as np

from shardwise.backend.array import Shape
from shardwise.backend.errors import ShapeError
from shardwise.tensor.dim import Dims, counted_dim, counted_dims
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.mode import no_grad
from shardwise.tensor.ops import view
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.size import Sizes, full_shape, integers

__all__ = ["Rearrangement"]


class Rearrangement(Carrier):
    """What gives the elements of a tensor other dims, without copying them where strides allow it."""

    def reshape(self, *sizes: Sizes, shape: Sizes | None = None) -> Self:
        """Return the elements in another shape, ``reshape(2, 3)`` or ``reshape((2, 3))``; one size may be -1.

        The result is a view where the strides allow it, and a copy elsewhere.
        """
        return self._reshaped(full_shape("reshape", self.data.shape, integers(sizes, shape)))

    @overload
    def view(self, dtype: np.dtype[Any] | type[np.generic], /) -> Self: ...
    @overload
    def view(self, *shape: Sizes) -> Self: ...
    def view(self, *shape: Any) -> Self:
        """Return the elements in another shape, or their bits as another dtype.

        The same as `reshape`: where PyTorch would raise because no view has this shape, this copies.
        Through a change of dtype no gradient flows.

        Parameters
        ----------
        *shape : int, or one sequence of int, or one dtype
            One size may be -1. With a dtype of another size the last dim grows or shrinks.
        """
        if len(shape) == 1 and isinstance(shape[0], (np.dtype, type)):
            with no_grad():
                return view.Reinterpret.apply(self, dtype=np.dtype(shape[0]))
        return self._reshaped(full_shape("view", self.data.shape, integers(shape)))

    def _reshaped(self, shape: Shape) -> Self:
        data = self.data
        flags = getattr(data, "flags", None)  # an array without data lies nowhere
        if flags is None or flags.c_contiguous or view.keeps_memory(data.shape, data.strides, shape):
            return view.Reshape.apply(self, shape=shape)
        return view.CopiedReshape.apply(self, shape=shape)

    def reshape_as(self, other: Carrier) -> Self:
        """Return the elements in the shape of `other`."""
        return self.reshape(other.data.shape)

    def view_as(self, other: Carrier) -> Self:
        """Return the elements in the shape of `other`."""
        return self.view(other.data.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Return the dims from `start_dim` to `end_dim` merged into one."""
        shape = self.data.shape or (1,)
        start, end = (counted_dim("flatten", dim, len(shape)) for dim in (start_dim, end_dim))
        if start > end:
            raise ShapeError(f"flatten: start_dim={start_dim} lies behind end_dim={end_dim}; swap them")
        return self._reshaped((*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))

    def ravel(self) -> Self:
        """Return the elements in one dim."""
        return self._reshaped((self.data.size,))

    @numpy_names
    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Return `dim` parted into dims of `sizes`, one of which may be -1."""
        shape = self.data.shape
        at = counted_dim("unflatten", dim, len(shape))
        parts = full_shape(f"unflatten dim {dim} of", shape[at : at + 1], tuple(sizes))
        return self._reshaped((*shape[:at], *parts, *shape[at + 1 :]))

    def permute(self, *order: Sizes, dims: Sizes | None = None) -> Self:
        """Return the dims in another order, ``permute(1, 0)`` or ``permute((1, 0))``."""
        ndim, given = self.data.ndim, integers(order, dims)
        places = tuple([counted_dim("permute", dim, ndim) for dim in given])
        if sorted(places) != list(range(ndim)):
            raise ShapeError(f"permute: {given} is no order of {ndim} dims; name each of them once")
        return view.Permute.apply(self, dims=places)

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Return two dims swapped."""
        return self._swapped("transpose", dim0, dim1)

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """Return two dims swapped; NumPy's name for `transpose`."""
        return self._swapped("swapaxes", axis0, axis1)

    def swapdims(self, dim0: int, dim1: int) -> Self:
        """Return two dims swapped; the same as `transpose`."""
        return self._swapped("swapdims", dim0, dim1)

    def _swapped(self, op: str, dim0: int, dim1: int) -> Self:
        ndim = self.data.ndim
        order = list(range(ndim))
        a, b = counted_dim(op, dim0, ndim), counted_dim(op, dim1, ndim)
        if ndim:
            order[a], order[b] = b, a
        return view.Permute.apply(self, dims=tuple(order))

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return the dims at `source` moved to `destination`; the others keep their order."""
        ndim = self.data.ndim
        start, end = (counted_dims("movedim", dim, ndim) for dim in (source, destination))
        if len(start) != len(end):
            raise ShapeError(
                f"movedim: {source} and {destination} differ in number; name a place for each dim"
            )
        order = [dim for dim in range(ndim) if dim not in start]
        for place, dim in sorted(zip(end, start, strict=True)):
            order.insert(place, dim)
        return view.Permute.apply(self, dims=tuple(order))

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return the dims at `source` moved to `destination`; NumPy's name for `movedim`."""
        return self.movedim(source, destination)

    def t(self) -> Self:
        """Return a matrix transposed; fewer dims come back as they are."""
        if self.data.ndim > 2:
            raise ShapeError(
                f"t() takes at most two dims, got the shape {self.data.shape}; use mT or transpose()"
            )
        return self.T

    @property
    def T(self) -> Self:
        """The dims in reverse order."""
        return view.Permute.apply(self, dims=tuple(range(self.data.ndim))[::-1])

    @property
    def mT(self) -> Self:
        """The last two dims swapped."""
        return self._swapped("mT", -1, -2)

    @property
    def H(self) -> Self:
        """A matrix transposed and conjugated."""
        if self.data.ndim not in (0, 2):
            raise ShapeError(
                f"H is for matrices, got the shape {self.data.shape}; use mH for batches of them"
            )
        adjoint: Self = conj(self.T)
        return adjoint

    @property
    def mH(self) -> Self:
        """The last two dims swapped, and conjugated."""
        adjoint: Self = conj(self._swapped("mH", -1, -2) if self.data.ndim else self)
        return adjoint

    def adjoint(self) -> Self:
        """Return the last two dims swapped, and conjugated."""
        return self.mH

    @numpy_names
    def squeeze(self, dim: Dims = None) -> Self:
        """Return without dims of size one: all of them, or those of `dim` that are."""
        shape = self.data.shape
        gone = counted_dims("squeeze", dim, len(shape))
        return self._reshaped(tuple([n for i, n in enumerate(shape) if n != 1 or i not in gone]))

    @numpy_names
    def unsqueeze(self, dim: int) -> Self:
        """Return with a dim of size one put in at `dim`."""
        shape = list(self.data.shape)
        shape.insert(counted_dim("unsqueeze", dim, len(shape) + 1), 1)
        return self._reshaped(tuple(shape))

    def expand(self, *sizes: Sizes, size: Sizes | None = None) -> Self:
        """Return dims of size one repeated, without copying; -1 keeps a size, new dims come in front."""
        shape, wanted = self.data.shape, integers(sizes, size)
        extra = len(wanted) - len(shape)
        if extra < 0:
            raise ShapeError(f"cannot expand {shape} to {wanted}, which has fewer dims")
        have = (1,) * extra + shape
        full = tuple(
            [h if n == -1 and i >= extra else n for i, (n, h) in enumerate(zip(wanted, have, strict=True))]
        )
        if any(n < 0 or h not in (1, n) for n, h in zip(full, have, strict=True)):
            raise ShapeError(
                f"cannot expand {shape} to {wanted}; only dims of size one, and new ones in front, can grow"
            )
        return view.Expand.apply(self, shape=full)

    def expand_as(self, other: Carrier) -> Self:
        """Return dims of size one repeated to the shape of `other`, without copying."""
        return self.expand(other.data.shape)

    def broadcast_to(self, *sizes: Sizes, size: Sizes | None = None) -> Self:
        """Return dims of size one repeated, without copying; the same as `expand`."""
        return self.expand(*sizes, size=size)
