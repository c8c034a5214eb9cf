"""Reductions over dims, which are given as in PyTorch (``dim``, ``keepdim``)."""

from __future__ import annotations

import math
from typing import Any, Self, overload

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ShapeError
from shardwise.tensor.dim import Dims
from shardwise.tensor.methods.along import choose_along
from shardwise.tensor.methods.arithmetic import Arithmetic
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.methods.result import Extremes, ValuesIndices
from shardwise.tensor.narrow import is_narrow
from shardwise.tensor.ops import arithmetic, choice, comparison, extreme, reduce

__all__ = ["Reduction", "all_if_empty", "cast"]


def all_if_empty(dim: Dims) -> Dims:
    """Return None for ``dim=()``, by which PyTorch means all dims."""
    return None if dim == () or dim == [] else dim


def cast(x: Any, dtype: DTypeLike | None) -> Any:
    """Return `x` in another dtype, itself if it has it already or none is asked for."""
    if dtype is None or x.data.dtype == np.dtype(dtype):
        return x
    return arithmetic.Cast.apply(x, dtype=np.dtype(dtype))


class Reduction(Arithmetic):
    """Sums, products, extremes, and questions about all elements.

    Wherever a method takes `dim`, an int names one dim, a tuple several, None all of them, and
    `keepdim` keeps them with size one.
    """

    @numpy_names
    def sum(self, dim: Dims = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the sum over `dim`; of integers and booleans it is int64."""
        if not keepdim and dtype is None:  # the door is faster with fewer parameters
            dim = all_if_empty(dim)
            return reduce.Sum.apply(self) if dim is None else reduce.Sum.apply(self, dim=dim)
        return reduce.Sum.apply(self, dim=all_if_empty(dim), keepdim=keepdim, dtype=dtype)

    @numpy_names
    def nansum(self, dim: Dims = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the sum over `dim`, with NaN counted as zero."""
        if dtype is None and self.data.dtype.kind == "f":
            return reduce.NanSum.apply(self, dim=all_if_empty(dim), keepdim=keepdim)
        result: Self = _without_nan(self).sum(dim, keepdim, dtype)
        return result

    @numpy_names
    def mean(self, dim: Dims = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the mean over `dim`; NaN of nothing. Of integers it is float64."""
        if dim is None and not keepdim and dtype is None:
            return reduce.Mean.apply(self)
        result: Self = reduce.Mean.apply(cast(self, dtype), dim=all_if_empty(dim), keepdim=keepdim)
        return result

    @numpy_names
    def nanmean(self, dim: Dims = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the mean over `dim` of what is not NaN; NaN where all is."""
        x: Any = cast(self, dtype)
        narrow = is_narrow(x.data)
        wide = cast(x, np.float32) if narrow else x
        total = _without_nan(wide).sum(dim, keepdim)
        here = comparison.Equal.apply(wide, wide).sum(dim, keepdim)
        count = cast(choice.Maximum.apply(here, 1), _real(total))
        mean = arithmetic.Where.apply(here > 0, arithmetic.Div.apply(total, count), math.nan)
        result: Self = cast(mean, x.data.dtype) if narrow else mean
        return result

    @numpy_names
    def prod(self, dim: Dims = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the product over `dim`; of integers and booleans it is int64."""
        result: Self = reduce.Prod.apply(cast(self, dtype), dim=dim, keepdim=keepdim)
        return result

    # ---- extremes

    @numpy_names
    def amax(self, dim: Dims = None, keepdim: bool = False) -> Self:
        """Return the largest value over `dim`; ties share the gradient evenly."""
        return extreme.Amax.apply(self, dim=all_if_empty(dim), keepdim=keepdim)

    @numpy_names
    def amin(self, dim: Dims = None, keepdim: bool = False) -> Self:
        """Return the smallest value over `dim`; ties share the gradient evenly."""
        return extreme.Amin.apply(self, dim=all_if_empty(dim), keepdim=keepdim)

    @numpy_names
    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Extremes[Self]:
        """Return the smallest and the largest value, as ``min`` and ``max``."""
        return Extremes(self.amin(dim, keepdim), self.amax(dim, keepdim))

    @overload
    def max(self) -> Self: ...

    @overload
    def max(self, dim: int, keepdim: bool = False) -> ValuesIndices[Self]: ...

    @overload
    def max(self, dim: Carrier) -> Self: ...

    @overload
    def max(self, *, other: Carrier) -> Self: ...

    @numpy_names
    def max(
        self, dim: int | Carrier | None = None, keepdim: bool = False, *, other: Carrier | None = None
    ) -> Self | ValuesIndices[Self]:
        """Return the largest value: of all, along a dim, or of two tensors element by element.

        Parameters
        ----------
        dim : int or Tensor, optional
            Without it, the largest of all; ties share the gradient evenly. An int gives
            ``(values, indices)`` along that dim; of ties the first is taken, and gets the gradient.
            A tensor stands for `other`.
        keepdim : bool
            Keep the dim, with size one.
        other : Tensor, optional
            The second of two to compare, as by ``maximum``.

        Raises
        ------
        ShapeError
            There is nothing to choose from.
        DTypeError
            The numbers are complex.
        """
        other = dim if isinstance(dim, Carrier) else other
        if other is not None:
            second: Any = other
            return choice.Maximum.apply(self, second)
        if dim is None:
            return extreme.Amax.apply(self)
        _one_dim("max", "amax", dim)
        return choose_along(extreme.Max, self, "max", dim, keepdim=keepdim)  # type: ignore[arg-type]

    @overload
    def min(self) -> Self: ...

    @overload
    def min(self, dim: int, keepdim: bool = False) -> ValuesIndices[Self]: ...

    @overload
    def min(self, dim: Carrier) -> Self: ...

    @overload
    def min(self, *, other: Carrier) -> Self: ...

    @numpy_names
    def min(
        self, dim: int | Carrier | None = None, keepdim: bool = False, *, other: Carrier | None = None
    ) -> Self | ValuesIndices[Self]:
        """Return the smallest value: of all, along a dim, or of two tensors; see `max`."""
        other = dim if isinstance(dim, Carrier) else other
        if other is not None:
            second: Any = other
            return choice.Minimum.apply(self, second)
        if dim is None:
            return extreme.Amin.apply(self)
        _one_dim("min", "amin", dim)
        return choose_along(extreme.Min, self, "min", dim, keepdim=keepdim)  # type: ignore[arg-type]

    @numpy_names
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the int64 index of the first largest value along `dim`, or among all in C order."""
        return extreme.Argmax.apply(self, dim=dim, keepdim=keepdim)

    @numpy_names
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the int64 index of the first smallest value along `dim`, or among all in C order."""
        return extreme.Argmin.apply(self, dim=dim, keepdim=keepdim)

    @numpy_names
    def ptp(self, dim: Dims = None, keepdim: bool = False) -> Self:
        """Return the largest value over `dim` less the smallest."""
        return arithmetic.Sub.apply(self.amax(dim, keepdim), self.amin(dim, keepdim))

    # ---- questions

    @numpy_names
    def all(self, dim: Dims = None, keepdim: bool = False) -> Self:
        """Return whether all elements over `dim` are true, that is, not zero."""
        return reduce.AllTrue.apply(self, dim=dim, keepdim=keepdim)

    @numpy_names
    def any(self, dim: Dims = None, keepdim: bool = False) -> Self:
        """Return whether some element over `dim` is true, that is, not zero."""
        return reduce.AnyTrue.apply(self, dim=dim, keepdim=keepdim)

    @numpy_names
    def count_nonzero(self, dim: Dims = None) -> Self:
        """Return how many elements over `dim` are not zero, int64."""
        return reduce.CountNonzero.apply(self, dim=all_if_empty(dim))

    def trace(self) -> Self:
        """Return the sum of the diagonal of a matrix."""
        if self.data.ndim != 2:
            raise ShapeError(
                f"trace: wanted a matrix, got the shape {self.data.shape}; numpy.trace takes a stack of them"
            )
        return reduce.Trace.apply(self)


def _without_nan(x: Any) -> Any:
    """Return `x` with zeros for NaN."""
    if x.data.dtype.kind in "iub":
        return x
    return arithmetic.Where.apply(comparison.Equal.apply(x, x), x, 0.0)


def _real(x: Any) -> np.dtype[Any]:
    """Return the dtype to count in when means of `x` are wanted: its own, or float64 for integers."""
    dtype: np.dtype[Any] = x.data.dtype
    return np.dtype(np.float64) if dtype.kind in "iub" else np.empty(0, dtype).real.dtype


def _one_dim(op: str, instead: str, dim: object) -> None:
    if isinstance(dim, (tuple, list)):
        raise ShapeError(f"{op} takes one dim, got {dim}; {instead} takes several")
