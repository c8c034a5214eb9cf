"""Quantiles, covariances and histograms, as compositions of ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.reduction import cast
from shardwise.tensor.ops import extreme, gather, index, order, search
from shardwise.tensor.ops.conjugate import conj

__all__ = ["correlation", "covariance", "histogram", "quantile"]

_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def quantile(
    op: str, x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Any:
    """Return quantiles; see the method."""
    if interpolation not in _INTERPOLATIONS:
        raise ArgumentError(f"{op}: interpolation={interpolation!r}; wanted one of {_INTERPOLATIONS}")
    given, dtype = x.data.shape, x.data.dtype
    if dtype.itemsize == 2:  # ranks of thousands of elements need more digits
        x, q = cast(x, np.float32), cast(q, np.float32) if hasattr(q, "node") else q
    if dim is None:
        x, at = x.reshape(-1), 0
    else:
        at = counted_dim(op, dim, len(given))
        x = np.moveaxis(x, at, -1) if given else x.reshape(1)
    extreme.check_choice(op, x.data, (x.data.ndim - 1,))
    shares = _shares(op, x, q)
    ordered = order.Sort.apply(x, dim=x.data.ndim - 1)[0]
    ranks = _ranks(ordered, shares, ignore_nan)
    result = _between(ordered, ranks, interpolation)
    # The shares, which stand last, go first; a single one goes away.
    if shares.data.ndim == 0:
        result = result.reshape(result.data.shape[:-1])
    else:
        result = np.moveaxis(result, -1, 0)
    if keepdim:
        lead = result.data.shape[: shares.data.ndim]
        kept = [1] * len(given) if dim is None else [1 if d == at else n for d, n in enumerate(given)]
        result = result.reshape(*lead, *kept)
    return cast(result, dtype)


def _shares(op: str, x: Any, q: Any) -> Any:
    """Return `q` as a tensor of the dtype of `x`, checked where it can be seen."""
    shares = q if hasattr(q, "node") else x.wrap(np.full_like(x.data, q, shape=()))
    if shares.data.dtype != x.data.dtype:
        raise DTypeError(
            f"{op}: q is {shares.data.dtype} and the tensor {x.data.dtype}; bring q to that with astype()"
        )
    if shares.data.ndim > 1:
        raise ShapeError(f"{op}: q must have the shape () or (n,), got {shares.data.shape}")
    if isinstance(shares.data, np.ndarray) and not bool(np.all((shares.data >= 0) & (shares.data <= 1))):
        raise ArgumentError(f"{op}: q must be from 0 to 1, got {shares.data.tolist()}")
    return shares


def _ranks(ordered: Any, shares: Any, ignore_nan: bool) -> Any:
    """Return where in the order each share lies, a number of elements from the first."""
    last = ordered.data.shape[-1] - 1
    flat = shares.reshape(-1)
    here = ordered == ordered
    if ignore_nan:
        present = cast(here.sum(-1, keepdim=True), ordered.data.dtype)
        return np.maximum(flat * (present - 1.0), 0.0)
    # NaN is sorted last, where a row that has one is made to look.
    return np.where(here.all(-1, keepdim=True), flat * float(last), float(last))


def _between(ordered: Any, ranks: Any, interpolation: str) -> Any:
    def at(places: Any) -> Any:
        return gather.Gather.apply(ordered, cast(places, np.int64), dim=ordered.data.ndim - 1)

    if interpolation == "nearest":
        return at(np.rint(ranks))
    if interpolation == "lower":
        return at(np.floor(ranks))
    if interpolation == "higher":
        return at(np.ceil(ranks))
    floor = np.floor(ranks)
    below, above = at(floor), at(np.ceil(ranks))
    share = 0.5 if interpolation == "midpoint" else ranks - floor
    # An infinity taken from itself would give NaN.
    endless = (below == above) & np.isinf(below)
    way = np.where(endless, 0.0, above) - np.where(endless, 0.0, below)
    return np.where(endless, below, below + way * share)


def covariance(x: Any, correction: float, fweights: Any, aweights: Any) -> Any:
    """Return the covariance matrix of the rows of `x`; see the method."""
    if x.data.ndim > 2:
        raise ShapeError(f"cov: wanted a matrix with a variable in each row, got the shape {x.data.shape}")
    rows = x.reshape(1, -1) if x.data.ndim < 2 else x
    count = rows.data.shape[1]
    weights = _weights(count, fweights, aweights)
    if weights is None:
        total: Any = count
        mean = rows.sum(1, keepdim=True) * (1.0 / count if count else math.nan)
    else:
        weights = cast(weights, np.real(rows.data).dtype)
        total = weights.sum()
        mean = (rows * weights).sum(1, keepdim=True) / total
    if weights is not None and aweights is not None and correction:
        norm = total - correction * (weights * cast(aweights, weights.data.dtype)).sum() / total
    else:
        norm = total - correction
    centred = rows - mean
    product = (centred if weights is None else centred * weights) @ conj(centred.transpose(0, 1))
    if isinstance(norm, int) and norm <= 0:  # divided by zero, without NumPy's warnings
        nothing = product == 0
        endless = product if product.data.dtype.kind == "c" else np.where(product > 0, math.inf, -math.inf)
        result = cast(np.where(nothing, product * math.nan, endless), product.data.dtype)
    else:
        result = product / norm
    return result.reshape(()) if x.data.ndim < 2 or x.data.shape[0] == 1 else result


def correlation(x: Any) -> Any:
    """Return the correlation matrix of the rows of `x`; see the method."""
    c = covariance(x, 1, None, None)
    if c.data.ndim == 0:
        return c / c
    places = np.arange(c.data.shape[0], like=c.data)
    spread = np.sqrt(np.real(index.Index.apply(c, index=(places, places))))
    scaled = c / spread.reshape(-1, 1) / spread
    return scaled if c.data.dtype.kind == "c" else np.clip(scaled, -1.0, 1.0)


def _weights(count: int, fweights: Any, aweights: Any) -> Any:
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is not None and weights.data.shape != (count,):
            raise ShapeError(f"cov: {name} must have the shape ({count},), got {weights.data.shape}")
    if fweights is not None and fweights.data.dtype.kind not in "iu":
        raise DTypeError(f"cov: fweights are counts, got {fweights.data.dtype}; aweights may be any numbers")
    if fweights is None or aweights is None:
        return aweights if fweights is None else fweights
    return fweights * aweights


def histogram(
    op: str, x: Any, bins: Any, limits: Any, weight: Any, density: bool, widening: float
) -> tuple[Any, Any]:
    """Return what falls into each bin, and the edges; see the methods.

    Parameters
    ----------
    widening : float
        How far the edges go to both sides where all elements are equal.
    """
    if x.data.dtype.kind == "c":
        raise DTypeError(
            f"{op}: complex numbers have no order, got {x.data.dtype}; take abs() or .real first"
        )
    values = x.detach().reshape(-1)
    edges = bins if hasattr(bins, "node") else _equal_bins(op, values, bins, limits, widening)
    if edges.data.ndim != 1 or edges.data.shape[0] < 2:
        raise ShapeError(f"{op}: the edges of bins must have the shape (n,), n > 1, got {edges.data.shape}")
    count = edges.data.shape[0] - 1
    if weight is not None and weight.data.shape != x.data.shape:
        raise ShapeError(
            f"{op}: weight must have the elements' shape {x.data.shape}, got {weight.data.shape}"
        )
    low, high = edges.detach()[0], edges.detach()[-1]
    inside = (values >= low) & (values <= high)
    place: Any
    if op == "histc":  # by arithmetic, which at an edge may round to either side, as PyTorch's
        place = cast((np.where(inside, values, low) - low) * float(count) / (high - low), np.int64)
    else:
        place = search.SearchSorted.apply(edges.detach(), values, right=True) - 1
    place = np.clip(place, 0, count - 1)  # the last bin has its right edge
    each = inside if weight is None else np.where(inside, weight.reshape(-1), 0.0)
    hist = index.Unindex.apply(cast(each, x.data.dtype), shape=(count,), index=(place.data,))
    if density:
        hist = hist / hist.sum() / (edges[1:] - edges[:-1])
    return hist, edges


def _equal_bins(op: str, values: Any, bins: int, limits: Any, widening: float) -> Any:
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ArgumentError(f"{op}: bins={bins!r}; wanted a number of at least 1")
    data: Array = values.data
    if limits is None and data.size:
        low, high = np.min(data), np.max(data)
    else:
        low, high = (np.full_like(data, limit, shape=()) for limit in limits or (0.0, 1.0))
    if isinstance(data, np.ndarray):
        if not bool(np.isfinite(low) & np.isfinite(high)):
            raise ArgumentError(f"{op}: the range from {low} to {high} is not finite; give one that is")
        if bool(low > high):
            raise ArgumentError(f"{op}: the range begins at {low}, behind its end {high}; swap them")
    flat = low == high
    low, high = np.where(flat, low - widening, low), np.where(flat, high + widening, high)
    width, step = (high - low) / float(bins), np.arange(bins + 1, like=data).astype(data.dtype)
    edges = np.where(step < float(bins + 1) / 2.0, low + step * width, high - (float(bins) - step) * width)
    return values.wrap(edges)
