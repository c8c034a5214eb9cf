"""Spread, norms, quantiles, covariance and counts in bins."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.tensor.dim import Dims
from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.methods.reduction import Reduction, all_if_empty, cast
from shardwise.tensor.methods.result import Histogram
from shardwise.tensor.methods.weighing import correlation, covariance, histogram, quantile
from shardwise.tensor.ops import arithmetic, statistics

__all__ = ["Interpolation", "Statistics"]

Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint"]


class Statistics(Reduction):
    """What describes how values are spread."""

    @numpy_names
    def var(
        self,
        dim: Dims | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Self:
        """Return the variance over `dim`: the squared distances from the mean by the count less `correction`.

        Parameters
        ----------
        dim : int, sequence of int, optional
            All dims if not given.
        unbiased : bool, optional
            PyTorch's older way to say ``correction=1`` (True) or 0; ``var(False)`` is accepted too.
        keepdim : bool
        correction : float, default 1

        Returns
        -------
        Tensor
            Real, also of complex numbers. NaN where there are too few elements.
        """
        dim, correction = _older(dim, unbiased, correction)
        return statistics.Var.apply(self, dim=dim, correction=correction, keepdim=keepdim)

    @numpy_names
    def std(
        self,
        dim: Dims | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Self:
        """Return the square root of the variance over `dim`; see `var`. Its gradient at 0 is 0."""
        dim, correction = _older(dim, unbiased, correction)
        return statistics.Std.apply(self, dim=dim, correction=correction, keepdim=keepdim)

    @numpy_names
    def var_mean(
        self,
        dim: Dims | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Self, Self]:
        """Return the variance and the mean over `dim`; see `var`."""
        dim, correction = _older(dim, unbiased, correction)
        return self.var(dim, keepdim=keepdim, correction=correction), self.mean(dim, keepdim)

    @numpy_names
    def std_mean(
        self,
        dim: Dims | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Self, Self]:
        """Return the standard deviation and the mean over `dim`; see `var`."""
        dim, correction = _older(dim, unbiased, correction)
        return self.std(dim, keepdim=keepdim, correction=correction), self.mean(dim, keepdim)

    @numpy_names
    def logsumexp(self, dim: Dims, keepdim: bool = False) -> Self:
        """Return the logarithm of the sum of exponentials over `dim`, without overflow."""
        result: Self = statistics.LogSumExp.apply(_inexact(self), dim=dim, keepdim=keepdim)
        return result

    @numpy_names
    def norm(
        self,
        p: float | Literal["fro"] | None = "fro",
        dim: Dims = None,
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """Return the p-norm of the elements over `dim`, taken as one long vector.

        Parameters
        ----------
        p : float or "fro", default "fro"
            2 for "fro" (and None); inf and -inf for the largest and smallest size, 0 to count what
            is not zero. Norms of matrices as operators are in ``linalg``.
        dim : int, sequence of int, optional
            All dims if not given.
        keepdim : bool
        dtype : dtype, optional
            To compute in.

        Returns
        -------
        Tensor
            Real. The gradient of the 2-norm is zero where the norm is.
        """
        if isinstance(p, str) and p != "fro":
            raise ArgumentError(f"norm: p={p!r}; wanted a number or 'fro'. linalg has the norms of matrices")
        power = 2.0 if p is None or isinstance(p, str) else float(p)
        x = _inexact(cast(self, dtype))
        result: Self = statistics.Norm.apply(x, p=power, dim=all_if_empty(dim), keepdim=keepdim)
        return result

    def dist(self, other: Operand, p: float = 2) -> Self:
        """Return the p-norm of ``self - other``, all elements taken together."""
        return arithmetic.Sub.apply(self, other).norm(p)

    # ---- quantiles

    @numpy_names
    def quantile(
        self,
        q: float | Carrier,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: Interpolation = "linear",
    ) -> Self:
        """Return the values below which the shares `q` of the elements along `dim` lie.

        Parameters
        ----------
        q : float, or Tensor of shape () or (n,)
            From 0 to 1.
        dim : int, optional
            All elements together if not given.
        keepdim : bool
        interpolation : str
            Between two elements: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"``,
            ``"midpoint"``.

        Returns
        -------
        Tensor
            Shape without `dim`, with a first dim of n for n shares. NaN where there is any.
        """
        result: Self = quantile("quantile", _inexact(self), q, dim, keepdim, interpolation, False)
        return result

    @numpy_names
    def nanquantile(
        self,
        q: float | Carrier,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: Interpolation = "linear",
    ) -> Self:
        """Return quantiles of what is not NaN; NaN where all is. See `quantile`."""
        result: Self = quantile("nanquantile", _inexact(self), q, dim, keepdim, interpolation, True)
        return result

    # ---- covariance

    def cov(
        self, *, correction: int = 1, fweights: Carrier | None = None, aweights: Carrier | None = None
    ) -> Self:
        """Return the covariance matrix of variables, of which each row holds the observations of one.

        Parameters
        ----------
        correction : int
            What the count of observations is lessened by.
        fweights : Tensor of int, shape (observations,), optional
            How often each observation was made.
        aweights : Tensor, shape (observations,), optional
            How much each observation counts.
        """
        result: Self = covariance(_inexact(self), correction, fweights, aweights)
        return result

    def corrcoef(self) -> Self:
        """Return the matrix of Pearson's correlation coefficients of variables in rows, from -1 to 1."""
        result: Self = correlation(_inexact(self))
        return result

    # ---- bins

    def histc(self, bins: int = 100, min: complex = 0, max: complex = 0) -> Self:
        """Return how many elements fall into each of `bins` equal bins from `min` to `max`.

        The range is that of the elements if both are 0. The last bin takes in `max`; what lies outside
        is left out. The dtype is that of the elements.
        """
        x = _inexact(self)
        limits = None if min == max == 0 else (min, max)
        hist, _ = histogram("histc", x, bins, limits, None, False, 1.0)
        result: Self = hist
        return result

    def histogram(
        self,
        bins: int | Carrier,
        *,
        range: tuple[complex, complex] | None = None,
        weight: Carrier | None = None,
        density: bool = False,
    ) -> Histogram[Self]:
        """Return how many elements fall into each bin, and the edges of the bins.

        Parameters
        ----------
        bins : int or Tensor
            How many equal ones, or their edges in rising order.
        range : (float, float), optional
            Where equal bins begin and end; where the elements do, if not given.
        weight : Tensor, optional
            What each element counts, in the elements' shape.
        density : bool
            Divide so that the sum of heights times widths is one.
        """
        hist, edges = histogram("histogram", _inexact(self), bins, range, weight, density, 0.5)
        return Histogram(hist, edges)


def _older(dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Any, float]:
    """Bring PyTorch's several ways to ask for a correction to one."""
    if isinstance(dim, bool):
        if unbiased is not None:
            raise ArgumentError("var, std: unbiased was given twice")
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise ArgumentError("var, std: give unbiased or correction, not both")
    return all_if_empty(dim), (1 if unbiased is None else int(unbiased)) if correction is None else correction


def _inexact(x: Any) -> Any:
    """Return `x`, of integers and booleans as float64, which is what NumPy's functions make of them."""
    return cast(x, np.float64) if x.data.dtype.kind in "iub" else x
