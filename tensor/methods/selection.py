"""Picking elements by index."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import DTypeError, IndexRangeError, ShapeError
from shardwise.backend.select import backend_of
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.methods.rearrangement import Rearrangement
from shardwise.tensor.ops import gather, index, take, view
from shardwise.tensor.ops.key import is_basic, plain_index

__all__ = ["Places", "Selection"]

Places = Carrier | Array | list[int] | list[list[int]]
"""Integers that name places: a tensor, an array or lists."""


class Selection(Rearrangement):
    """What is chosen by indices."""

    def __getitem__(self, key: Any) -> Self:
        """Return what an index selects, by NumPy's rules.

        Integers, slices (of any step), None and Ellipsis give a view; integers in tensors, arrays or
        lists, and masks of booleans, a copy. Where a place is named twice, gradients add up. One rule
        differs from PyTorch's: an integer beside an index array counts as one too, so that in
        ``x[0, :, [1, 2]]`` the new dim comes first.

        Raises
        ------
        IndexRangeError
            An index is out of range, or there are too many; index arrays do not broadcast.
        DTypeError
            It holds numbers that are no integers.
        """
        plain = plain_index(key)
        try:
            if is_basic(plain):
                return index.Slice.apply(self, index=plain)
            return index.Index.apply(self, index=self._with_arrays_here(plain))
        except IndexRangeError:
            raise
        except IndexError as error:
            raise index_error("indexing", self.data.shape, error) from error

    def _with_arrays_here(self, plain: Any) -> Any:
        """Return an index whose arrays are where this tensor is."""
        if isinstance(self.data, np.ndarray):
            return plain
        if isinstance(plain, tuple):
            return tuple([self._with_arrays_here(part) for part in plain])
        backend = backend_of(self.data)
        return backend.asarray(plain) if isinstance(plain, np.ndarray) and backend.name == "cuda" else plain

    def _places(self, op: str, index: Places) -> Any:
        """Return integers that name places as a tensor or an array, where this tensor is."""
        if isinstance(index, Carrier):
            return index
        array = index
        if isinstance(index, list):
            array = np.asarray(index, None if index else np.int64)  # an empty list holds floats, says NumPy
        if not hasattr(array, "dtype"):
            raise DTypeError(
                f"{op}: the index must be a tensor or array of integers, not {type(index).__name__}"
            )
        return self._with_arrays_here(array)

    @numpy_names
    def index_select(self, dim: int, index: Places) -> Self:
        """Return the slices along `dim` that a vector of integers names, in its order."""
        places = self._places("index_select", index)
        if places.ndim > 1:
            raise ShapeError(f"index_select: the index must have one dim, got the shape {places.shape}")
        if not places.ndim:
            places = places.reshape(1)
        whole = self if self.data.ndim else self.reshape(1)
        at = counted_dim("index_select", dim, whole.data.ndim)
        chosen = take.IndexSelect.apply(whole, places, dim=at)
        return chosen if self.data.ndim else chosen.reshape(())

    @numpy_names
    def gather(self, dim: int, index: Places) -> Self:
        """Return, per position of `index`, the element that it names along `dim`.

        Parameters
        ----------
        dim : int
        index : Tensor of integers
            As many dims as this tensor, and along all but `dim` not longer.

        Returns
        -------
        Tensor, shape of `index`

        Raises
        ------
        IndexRangeError
            An index is not in [0, size of `dim`).
        """
        places = self._places("gather", index)
        if not self.data.ndim:
            return self.reshape(1).gather(dim, places.reshape(1)).reshape(places.shape)
        return gather.Gather.apply(self, places, dim=self._aligned("gather", dim, places.shape))

    def _aligned(self, op: str, dim: int, shape: tuple[int, ...]) -> int:
        """Return `dim` counted from the front, after a look at the shape of an index."""
        mine = self.data.shape
        at = counted_dim(op, dim, len(mine))
        longer = [d for d, (n, m) in enumerate(zip(shape, mine, strict=False)) if n > m and d != at]
        if len(shape) != len(mine) or longer:
            raise ShapeError(
                f"{op}: an index of shape {shape} does not fit shape {mine}; wanted as many dims, and along "
                f"all but dim {at} not longer"
            )
        return at

    @numpy_names
    def take_along_dim(self, indices: Places, dim: int | None = None) -> Self:
        """Return, per position of `indices`, the element that it names along `dim`; the rest broadcasts.

        Parameters
        ----------
        indices : Tensor of integers
            As many dims as this tensor. Negative ones count from the end.
        dim : int, optional
            Where not given, both are taken as in one dim.
        """
        places = self._places("take_along_dim", indices)
        if dim is None:
            return self.reshape(-1).take_along_dim(places.reshape(-1), 0)
        mine, theirs = self.data.shape, places.shape
        at = counted_dim("take_along_dim", dim, len(mine))
        if len(mine) != len(theirs):
            raise ShapeError(
                f"take_along_dim: indices of shape {theirs} and a tensor of shape {mine} differ in dims"
            )
        if not mine:
            return self.reshape(1).take_along_dim(places.reshape(1), 0).reshape(())
        try:
            common = np.broadcast_shapes(*((*s[:at], 1, *s[at + 1 :]) for s in (mine, theirs)))
        except ValueError as error:
            raise ShapeError(
                f"take_along_dim: shapes {mine} and {theirs} do not broadcast along all but dim {at}"
            ) from error
        whole = self.expand(*common[:at], mine[at], *common[at + 1 :])
        places = view.Expand.apply(places, shape=(*common[:at], theirs[at], *common[at + 1 :]))
        return gather.Gather.apply(whole, places, dim=at, negative=True)

    def take(self, index: Places) -> Self:
        """Return the elements that `index` names in the flattened tensor, from the end if negative."""
        return take.IndexSelect.apply(self.reshape(-1), self._places("take", index), dim=0, negative=True)

    def masked_select(self, mask: Carrier | Array) -> Self:
        """Return the elements where `mask` is true, in one dim; the two broadcast.

        Raises
        ------
        DataDependentShapeError
            On arrays without data: how many there are is in the mask.
        """
        chosen: Any = mask.data if isinstance(mask, Carrier) else mask
        if chosen.dtype != np.bool_:
            raise DTypeError(f"masked_select: the mask must be booleans, not {chosen.dtype}; compare first")
        shape = broadcast_shapes("masked_select", self.data.shape, chosen.shape)
        return index.Index.apply(self.expand(shape), index=np.broadcast_to(chosen, shape))


def index_error(op: str, shape: tuple[int, ...], error: IndexError) -> IndexRangeError:
    """Tell of an index that NumPy refuses in the name of an op, with the shape that was indexed."""
    return IndexRangeError(f"{op} a tensor of shape {shape}: {error}")


def broadcast_shapes(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to.

    Raises
    ------
    ShapeError
        In the name of `op`, if they do not.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        listed = " and ".join(map(str, shapes))
        raise ShapeError(f"{op}: shapes {listed} do not broadcast together") from error
