"""Running sums, products and extremes along one dim."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.reduction.scan import (
    running_largest,
    running_product,
    running_product_backward,
    running_smallest,
    running_sum,
)
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.gather import Ungather
from shardwise.tensor.ops.letter import LETTERS

__all__ = [
    "Cummax", "Cummin", "Cumprod", "Cumsum", "LogCumsumExp", "integer_total", "pair_signature",
    "scan_signature", "standing_along",
]  # fmt: skip


def scan_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Give ``"a[b]c->a[b]c"`` for dim 1."""
    ndim = len(shapes[0])
    dim = params["dim"] % ndim
    term = f"{LETTERS[:dim]}[{LETTERS[dim]}]{LETTERS[dim + 1 : ndim]}"
    return f"{term}->{term}"


def pair_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Give ``"a[b]c->a[b]c,a[b]c"`` for dim 1: values, and where they were."""
    term = scan_signature(shapes, params).split("->")[0]
    return f"{term}->{term},{term}"


def integer_total(dtype: Any) -> Any:
    """Return the dtype of a sum of small unsigned integers, int64 as of others; None leaves NumPy's."""
    return np.int64 if dtype.kind == "u" and dtype.itemsize < 8 else None


def standing_along(count: int, dim: int, ndim: int, like: Any) -> Any:
    """Return 0, 1, ... along `dim`, of size one along the others, on the device of `like`."""
    return np.reshape(np.arange(count, like=like), (1,) * dim + (count,) + (1,) * (ndim - dim - 1))


def _part(dim: int, *limits: int | None) -> tuple[slice, ...]:
    return (slice(None),) * dim + (slice(*limits),)


class Cumsum(Function):
    signature = scan_signature
    linear = "all"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int) -> Array:
        ctx.dim = counted_dim("cumsum", dim, a.ndim)
        if a.dtype == np.float32:  # in double precision, or the error would grow with the length
            return running_sum(a, ctx.dim)
        return np.cumsum(a, axis=ctx.dim, dtype=integer_total(a.dtype))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        backwards = _part(ctx.dim, None, None, -1)
        return (Cumsum.apply(g[backwards], dim=ctx.dim)[backwards],)


class Cumprod(Function):
    """The running product. Its gradient divides by nothing, so that zeros are no trouble."""

    signature = scan_signature
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int) -> Array:
        ctx.dim = counted_dim("cumprod", dim, a.ndim)
        ctx.save(a)
        if a.dtype == np.float32:  # as of `Cumsum`
            return running_product(a, ctx.dim)
        return np.cumprod(a, axis=ctx.dim, dtype=integer_total(a.dtype))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        if 0 in a.shape:
            return (g,)
        return (running_product_backward(g, conj(a), ctx.dim),)


class Cummax(Function):
    """The largest so far, and the index of the last that is as large; NaN stays once it is met."""

    signature = pair_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int) -> tuple[Array, Array]:
        return _running(ctx, a, counted_dim("cummax", dim, a.ndim), running_largest)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (_add_where_it_was(ctx, g),)


class Cummin(Function):
    """The smallest so far, and the index of the last that is as small; NaN stays once it is met."""

    signature = pair_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int) -> tuple[Array, Array]:
        return _running(ctx, a, counted_dim("cummin", dim, a.ndim), running_smallest)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (_add_where_it_was(ctx, g),)


def _running(
    ctx: Context, a: Array, dim: int, kernel: Callable[[Array, int], tuple[Array, Array]]
) -> tuple[Array, Array]:
    values, indices = kernel(a, dim)
    ctx.dim = dim
    ctx.save(indices)
    return values, indices


def _add_where_it_was(ctx: Context, g: Any) -> Any:
    (indices,) = ctx.saved
    return Ungather.apply(g, indices, shape=g.shape, dim=ctx.dim)


class LogCumsumExp(Function):
    """The logarithm of the running sum of exponentials, without overflow."""

    signature = scan_signature
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int) -> Array:
        ctx.dim = counted_dim("logcumsumexp", dim, a.ndim)
        out = special.accumulate(np.logaddexp, a, ctx.dim)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        # Where nothing but exp(-inf) was added, no gradient flows; where inf was, none is defined.
        shift = np.where(out == -math.inf, math.inf, out)
        a = np.where(a == math.inf, math.nan, a)
        return (_weighted(a, shift, g, ctx.dim) - _weighted(a, shift, -g, ctx.dim),)


def _weighted(a: Any, shift: Any, g: Any, dim: int) -> Any:
    """Return ``exp(a[i])`` times the sum of ``g[j] * exp(-shift[j])`` over j from i on, g > 0 only."""
    backwards = _part(dim, None, None, -1)
    positive = g > 0.0
    terms = np.where(positive, np.log(np.where(positive, g, 1.0)), -math.inf) - shift
    return np.exp(a + LogCumsumExp.apply(terms[backwards], dim=dim)[backwards])
