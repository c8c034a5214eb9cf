"""Sorting, choosing by order, and telling values apart."""

from __future__ import annotations

from typing import Any, Literal, Self, overload

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor.methods.along import along, choose_along
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.distinct import distinct
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.methods.result import ValuesIndices
from shardwise.tensor.ops import extreme, index, order, search, selection, view

__all__ = ["Ordering"]


class Ordering(Carrier):
    """What puts elements in order. NaN counts as the largest; complex numbers have no order."""

    @numpy_names
    def sort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesIndices[Self]:
        """Return the values in order along `dim`, and the indices where they were.

        Equal elements keep their order, whether `stable` asks for it or not.
        """
        _ordered("sort", self)
        return choose_along(order.Sort, self, "sort", dim, descending=descending)

    @numpy_names
    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Self:
        """Return the indices that put the elements along `dim` in order; see `sort`."""
        _ordered("argsort", self)
        result: Self = along(order.Argsort, self, "argsort", dim, descending=descending)
        return result

    def msort(self) -> Self:
        """Return the values in order along the first dim."""
        return self.sort(0).values

    @numpy_names
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices[Self]:
        """Return the `k` largest (or smallest) values along `dim`, best first, and their indices.

        Of equal elements the first are taken. The result is in order whether `sorted` asks for it or not.
        """
        _ordered("topk", self)
        return choose_along(order.TopK, self, "topk", dim, k=k, largest=largest)

    @numpy_names
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices[Self]:
        """Return the `k`-th smallest value along `dim`, counted from 1, and the index of the first of it."""
        _ordered("kthvalue", self)
        return choose_along(selection.KthValue, self, "kthvalue", dim, k=k, keepdim=keepdim)

    @overload
    def median(self) -> Self: ...

    @overload
    def median(self, dim: int, keepdim: bool = False) -> ValuesIndices[Self]: ...

    @numpy_names
    def median(self, dim: int | None = None, keepdim: bool = False) -> Self | ValuesIndices[Self]:
        """Return the median, of two in the middle the lower; NaN where there is any.

        Parameters
        ----------
        dim : int, optional
            Without it, the median of all; elements that equal it share the gradient evenly. With it,
            ``(values, indices)`` along that dim, the index being that of the first that equals it.
        keepdim : bool

        Notes
        -----
        ``numpy.median`` of a tensor takes the mean of the two in the middle, and so does
        ``quantile(0.5)``.
        """
        if dim is None:
            return selection.Median.apply(self)
        return choose_along(selection.MedianAlong, self, "median", dim, keepdim=keepdim)

    @overload
    def nanmedian(self) -> Self: ...

    @overload
    def nanmedian(self, dim: int, keepdim: bool = False) -> ValuesIndices[Self]: ...

    @numpy_names
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Self | ValuesIndices[Self]:
        """Return the median of what is not NaN; NaN where all is. See `median`."""
        if dim is None:
            return selection.Median.apply(self, ignore_nan=True)
        return choose_along(selection.MedianAlong, self, "nanmedian", dim, keepdim=keepdim, ignore_nan=True)

    @numpy_names
    def mode(self, dim: int = -1, keepdim: bool = False) -> ValuesIndices[Self]:
        """Return the most frequent value along `dim`, of ties the smallest, and its last index."""
        _ordered("mode", self)
        return choose_along(selection.Mode, self, "mode", dim, keepdim=keepdim)

    # ---- telling apart; how much there is to tell depends on the data

    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> Self: ...

    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Self | tuple[Self, ...]: ...

    @numpy_names
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Self | tuple[Self, ...]:
        """Return the different elements, or the different slices along `dim`, sorted.

        Parameters
        ----------
        sorted : bool
            They are sorted in any case.
        return_inverse : bool
            Also return, for every element (or slice), the index of its like among the results.
        return_counts : bool
            Also return how often each occurs.
        dim : int, optional
            All elements are told apart if not given.

        Returns
        -------
        Tensor or tuple of Tensor
            The first appearance of each gets its gradient.

        Raises
        ------
        DataDependentShapeError
            On arrays without data.
        """
        result: Self | tuple[Self, ...] = distinct(
            "unique", self, dim, inverse=return_inverse, counts=return_counts
        )
        return result

    @overload
    def unique_consecutive(
        self,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> Self: ...

    @overload
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Self | tuple[Self, ...]: ...

    @numpy_names
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Self | tuple[Self, ...]:
        """Return one element (or slice) of each run of equal ones, in place; see `unique`."""
        told: Self | tuple[Self, ...] = distinct(
            "unique_consecutive", self, dim, consecutive=True, inverse=return_inverse, counts=return_counts
        )
        return told

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Self: ...

    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Self, ...]: ...

    def nonzero(self, *, as_tuple: bool = False) -> Self | tuple[Self, ...]:
        """Return the indices of the elements that are not zero: a row for each, int64.

        With `as_tuple`, one tensor per dim, as an index takes them.
        """
        if not as_tuple:
            return search.Nonzero.apply(self)
        x: Any = self if self.data.ndim else view.Reshape.apply(self, shape=(1,))
        found = search.Nonzero.apply(x)
        return tuple([index.Slice.apply(found, index=(slice(None), d)) for d in range(x.data.ndim)])

    def argwhere(self) -> Self:
        """Return the indices of the elements that are not zero, a row for each, int64."""
        return search.Nonzero.apply(self)

    def bincount(self, weights: Carrier | None = None, minlength: int = 0) -> Self:
        """Return how often each integer from 0 on occurs among the elements, or the sum of its weights.

        Parameters
        ----------
        weights : Tensor, optional
            One per element; the result has their dtype if that is floating, else float64.
        minlength : int
            The least length of the result, which is otherwise one more than the largest element.
        """
        if self.data.ndim != 1 or self.data.dtype.kind not in "iu":
            kind: type[ShapeError | DTypeError] = ShapeError if self.data.ndim != 1 else DTypeError
            raise kind(
                f"bincount: wanted integers of shape (n,), got {self.data.dtype} of shape {self.data.shape}"
            )
        if minlength < 0:
            raise ArgumentError(f"bincount: minlength={minlength}; wanted 0 or more")
        if isinstance(self.data, np.ndarray) and self.data.size and int(self.data.min()) < 0:
            raise ArgumentError(f"bincount: wanted integers from 0 on, got {int(self.data.min())}")
        if weights is None:
            return search.Bincount.apply(self, minlength=minlength)
        if weights.data.shape != self.data.shape:
            raise ShapeError(
                f"bincount: weights of shape {weights.data.shape} for elements of shape {self.data.shape}"
            )
        return search.Bincount.apply(self, weights, minlength=minlength)


def _ordered(op: str, x: Carrier) -> None:
    extreme.check_choice(op, x.data, ())
