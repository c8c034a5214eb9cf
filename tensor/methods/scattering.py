"""Writing into chosen places of a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.selection import Places, Selection, broadcast_shapes, index_error
from shardwise.tensor.ops import arithmetic, gather, take, view
from shardwise.tensor.ops import index as indexing
from shardwise.tensor.ops.bound import check_index
from shardwise.tensor.ops.key import plain_index
from shardwise.tensor.ops.scatter_reduce import REDUCTIONS, ScatterReduce

__all__ = ["Reduce", "Scattering"]

Reduce: TypeAlias = Literal["sum", "prod", "mean", "amax", "amin"]
Values: TypeAlias = Carrier | Array
Number: TypeAlias = complex  # takes in int, float and bool


class Scattering(Selection):
    """What gives a copy with some elements written, added to or combined.

    Where an index names one place twice, the last value stays, and has the gradient.
    """

    # ---- element by element, along a dim

    def scatter(
        self, dim: int, index: Places, src: Values | Number | None = None, *, value: Number | None = None,
        reduce: Literal["add", "multiply"] | None = None,
    ) -> Self:  # fmt: skip
        """Return a copy with the elements that `index` names along `dim` replaced.

        Parameters
        ----------
        dim : int
        index : Tensor of integers
            As many dims as this tensor, and along all but `dim` not longer.
        src : Tensor or number
            What to write, at least as large as `index` along each dim; or one number, which may also be
            given as `value`.
        reduce : {"add", "multiply"}, optional
            Add or multiply instead of replacing.

        Raises
        ------
        IndexRangeError
            An index is not in [0, size of `dim`).
        """
        given = value if src is None else src
        if given is None:
            raise ArgumentError("scatter: wanted src or value, and got neither")
        if reduce is not None:
            if reduce not in ("add", "multiply"):
                raise ArgumentError(f"scatter: reduce must be 'add' or 'multiply', got {reduce!r}")
            return self.scatter_reduce(dim, index, given, "sum" if reduce == "add" else "prod")
        if not self.data.ndim:
            return self._in_one_dim("scatter", dim, index, given)
        places = self._places("scatter", index)
        at = self._aligned("scatter", dim, places.shape)
        source = self._source("scatter", given, places.shape)
        return gather.Scatter.apply(self, places, source, dim=at)

    def scatter_add(self, dim: int, index: Places, src: Values) -> Self:
        """Return a copy to which the elements of `src` are added where `index` names places along `dim`.

        The arguments are those of `scatter`; places that are named twice add up.
        """
        if not self.data.ndim:
            return self._in_one_dim("scatter_add", dim, index, src)
        places = self._places("scatter_add", index)
        at = self._aligned("scatter_add", dim, places.shape)
        source = self._source("scatter_add", src, places.shape)
        return gather.ScatterAdd.apply(self, places, source, dim=at)

    def scatter_reduce(
        self, dim: int, index: Places, src: Values | Number, reduce: Reduce, *, include_self: bool = True
    ) -> Self:
        """Return a copy combined with the elements of `src` where `index` names places along `dim`.

        Parameters
        ----------
        dim, index, src
            As for `scatter`.
        reduce : {"sum", "prod", "mean", "amax", "amin"}
        include_self : bool, default True
            Whether what was there counts. If not, it stays only where `index` names nothing.
        """
        if reduce not in REDUCTIONS:
            raise ArgumentError(
                f"scatter_reduce: reduce must be one of {', '.join(REDUCTIONS)}; got {reduce!r}"
            )
        if not self.data.ndim:
            return self._in_one_dim("scatter_reduce", dim, index, src, reduce, include_self=include_self)
        places = self._places("scatter_reduce", index)
        at = self._aligned("scatter_reduce", dim, places.shape)
        source = self._source("scatter_reduce", src, places.shape)
        if not np.ndim(getattr(source, "data", source)):
            source = self._full(places.shape, source)
        return ScatterReduce.apply(self, places, source, dim=at, reduce=reduce, include_self=include_self)

    def _in_one_dim(self, op: str, dim: int, index: Places, src: Any, *rest: Any, **options: Any) -> Self:
        """Run one of the three on a tensor without dims, which counts as having one."""
        counted_dim(op, dim, 0)
        whole = self.reshape(1)
        source = src.reshape(1) if hasattr(src, "dtype") else src
        places = self._places(op, index).reshape(1)
        done: dict[str, Callable[..., Self]] = {
            "scatter": whole.scatter,
            "scatter_add": whole.scatter_add,
            "scatter_reduce": whole.scatter_reduce,
        }
        return done[op](0, places, source, *rest, **options).reshape(())

    def _source(self, op: str, source: Any, shape: tuple[int, ...] | None = None) -> Any:
        """Return values to write as something of this tensor's dtype, cut to `shape` if one is given."""
        kind = getattr(source, "data", source) if isinstance(source, Carrier) else source
        dtype = getattr(kind, "dtype", None)
        if dtype is None:
            if isinstance(source, complex) and self.data.dtype.kind != "c":
                raise DTypeError(f"{op}: a complex number does not go into {self.data.dtype}")
            return source
        if dtype != self.data.dtype:
            if not np.can_cast(dtype, self.data.dtype, "same_kind"):
                raise DTypeError(
                    f"{op}: {dtype} does not go into {self.data.dtype}; cast with astype() first"
                )
            source = arithmetic.Cast.apply(source, dtype=self.data.dtype)
        if not isinstance(source, Carrier):
            source = self._with_arrays_here(source)
        if shape is None or source.shape == shape:
            return source
        if len(source.shape) != len(shape) or any(n > m for n, m in zip(shape, source.shape, strict=True)):
            raise ShapeError(
                f"{op}: an index of shape {shape} wants a source at least as large, got {source.shape}"
            )
        return indexing.Slice.apply(source, index=tuple([slice(n) for n in shape]))

    def _full(self, shape: tuple[int, ...], values: Any) -> Any:
        """Return values broadcast to a shape, where this tensor is."""
        if hasattr(values, "shape"):
            return view.Expand.apply(values, shape=shape)
        return np.full_like(self.data, values, shape=shape)

    # ---- slice by slice

    def _slices(self, op: str, dim: int, index: Places) -> tuple[Any, int]:
        """Return the places of slices along a dim, and which dim it is."""
        places = self._places(op, index)
        if len(places.shape) > 1:
            raise ShapeError(f"{op}: the index must have one dim, got the shape {places.shape}")
        return places if len(places.shape) else places.reshape(1), counted_dim(op, dim, self.data.ndim)

    def index_add(self, dim: int, index: Places, source: Values, *, alpha: Number = 1) -> Self:
        """Return a copy to which the slices of ``alpha * source`` are added, where `index` says along `dim`.

        Parameters
        ----------
        dim : int
        index : Tensor of integers, one dim
            In [0, size of `dim`); places that are named twice add up.
        source : Tensor
            The shape of this tensor, but as long as `index` along `dim`.
        alpha : number, default 1
        """
        places, at = self._slices("index_add", dim, index)
        whole = self.reshape(1) if not self.data.ndim else self
        fitting = self._fitting("index_add", whole, source, at, places)
        size = whole.data.shape[at]
        check_index("index_add", places.data if isinstance(places, Carrier) else places, size, at)
        added: Any = take.Unselect.apply(fitting, places, size=size, dim=at)
        if alpha != 1:
            added = arithmetic.Mul.apply(added, alpha)
        return arithmetic.Add.apply(whole, added).reshape(self.data.shape)

    def index_copy(self, dim: int, index: Places, source: Values) -> Self:
        """Return a copy with slices along `dim` replaced by those of `source`; arguments as `index_add`."""
        places, at = self._slices("index_copy", dim, index)
        whole = self.reshape(1) if not self.data.ndim else self
        fitting = self._fitting("index_copy", whole, source, at, places)
        copied = take.IndexCopy.apply(whole, places, fitting, dim=at, op="index_copy")
        return copied.reshape(self.data.shape)

    def index_fill(self, dim: int, index: Places, value: Carrier | Number) -> Self:
        """Return a copy with the slices along `dim` that `index` names set to one number."""
        places, at = self._slices("index_fill", dim, index)
        source = self._source("index_fill", value)
        if getattr(source, "shape", ()) != ():
            raise ShapeError(f"index_fill: wanted one number, got the shape {source.shape}; use index_copy()")
        whole = self.reshape(1) if not self.data.ndim else self
        filled = take.IndexCopy.apply(whole, places, source, dim=at, op="index_fill")
        return filled.reshape(self.data.shape)

    def _fitting(self, op: str, whole: Self, source: Any, dim: int, places: Any) -> Any:
        source = self._source(op, source)
        if getattr(source, "shape", None) == ():
            source = view.Reshape.apply(source, shape=(1,))
        shape = whole.data.shape
        wanted = (*shape[:dim], places.shape[0], *shape[dim + 1 :])
        if getattr(source, "shape", None) != wanted:
            raise ShapeError(
                f"{op}: wanted a source of shape {wanted}, for {places.shape[0]} places along dim {dim} of "
                f"shape {shape}; got {getattr(source, 'shape', source)}"
            )
        return source

    # ---- anywhere

    def put(self, index: Places, source: Values, accumulate: bool = False) -> Self:
        """Return a copy with the elements that `index` names in the flattened tensor replaced.

        Parameters
        ----------
        index : Tensor of integers
            Negative ones count from the end.
        source : Tensor
            As many elements as `index`.
        accumulate : bool
            Add instead, also where a place is named twice.
        """
        places, values = self._places("put", index), self._source("put", source)
        if _size(places) != _size(values):
            raise ShapeError(
                f"put: an index of shape {places.shape} wants as many elements, got the shape {values.shape}"
            )
        key = plain_index(places.reshape(-1))
        check_index("put", key, self.data.size, 0, negative=True)
        flat = self.reshape(-1).index_put((key,), values.reshape(-1), accumulate)
        return flat.reshape(self.data.shape)

    def index_put(self, indices: Sequence[Any], values: Values | Number, accumulate: bool = False) -> Self:
        """Return a copy with ``copy[indices] = values`` done, or, to `accumulate`, the values added."""
        key, source = self._with_arrays_here(plain_index(tuple(indices))), self._source("index_put", values)
        try:
            if not accumulate:
                return indexing.IndexPut.apply(self, source, index=key)
            return indexing.IndexAdd.apply(self, source, index=key)
        except IndexRangeError:
            raise
        except IndexError as error:
            raise index_error("index_put to", self.data.shape, error) from error

    def masked_scatter(self, mask: Values, source: Values) -> Self:
        """Return a copy with the elements of `source`, in order, where `mask` is true; the two broadcast.

        Raises
        ------
        ShapeError
            `source` has fewer elements than the mask has places (checked on the CPU).
        """
        chosen: Any = mask.data if isinstance(mask, Carrier) else mask
        if chosen.dtype != np.bool_:
            raise DTypeError(f"masked_scatter: the mask must be booleans, not {chosen.dtype}; compare first")
        shape = broadcast_shapes("masked_scatter", self.data.shape, chosen.shape)
        chosen, whole = np.broadcast_to(chosen, shape), self.expand(shape)
        values = self._source("masked_scatter", source).reshape(-1)
        if isinstance(chosen, np.ndarray) and int(np.count_nonzero(chosen)) > _size(values):
            raise ShapeError(
                f"masked_scatter: the mask has {int(np.count_nonzero(chosen))} places, and the source only "
                f"{_size(values)} elements"
            )
        if not _size(values):
            return arithmetic.Clone.apply(whole)
        order = np.maximum(np.cumsum(np.reshape(chosen, (-1,))) - 1, 0)
        picked: Any = take.IndexSelect.apply(values, np.reshape(order, shape), dim=0)
        result: Self = arithmetic.Where.apply(chosen, picked, whole)
        return result


def _size(values: Any) -> int:
    return int(np.prod(getattr(values, "shape", ())))
