"""The largest and the smallest over dims, and where they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.backend.kernels.reduction.total import largest_over, smallest_over
from shardwise.tensor.dim import Dims, counted_dim, counted_dims
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.order import chosen, placed
from shardwise.tensor.ops.reduce import kept_shape, reduced, reduction_signature, whole_signature
from shardwise.tensor.signature import Part

__all__ = [
    "Amax", "Amin", "Argmax", "Argmin", "Max", "Min", "check_choice", "choosing_signature", "shared_by_ties",
]  # fmt: skip


def choosing_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Give ``"a[b]c->ac,ac"``: a value along the dim, and where it was."""
    left, right = whole_signature(shapes, params).split("->")
    return f"{left}->{right},{right}"


def check_choice(op: str, a: Any, dims: tuple[int, ...]) -> None:
    """Raise if there is nothing to choose from, or no order among the elements."""
    if a.dtype.kind == "c":
        raise DTypeError(f"{op}: complex numbers have no order, got {a.dtype}; take abs() or .real first")
    for d in dims:
        if a.shape[d] == 0:
            raise ShapeError(
                f"{op}: dim {d} of shape {a.shape} has no element to choose; reduce other dims, or leave "
                "empty tensors out"
            )


def _localized(params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]) -> dict[str, Any]:
    return {**params, "part": True}


localized_choice = staticmethod(_localized)
"""Parameters for parts: of those, some may be empty although the whole is not."""


def nothing_chosen(a: Any, dims: tuple[int, ...], keepdim: bool, sign: int) -> Any:
    """Return what changes no maximum (`sign` -1) or minimum (1), in the shape of a reduction of `a`."""
    kind = a.dtype.kind
    if kind == "b":
        value: Any = sign > 0
    elif kind in "iu":
        value = np.iinfo(a.dtype).max if sign > 0 else np.iinfo(a.dtype).min
    else:
        value = sign * math.inf
    kept = kept_shape(a.shape, dims)
    shape = kept if keepdim else tuple([n for d, n in enumerate(a.shape) if d not in dims])
    return np.full_like(a, value, shape=shape)


class Amax(Function):
    """The largest value; ties share the gradient evenly."""

    signature = reduction_signature
    reduces = "max"
    commutes = "max"

    localize = localized_choice

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False, part: bool = False) -> Array:
        ctx.dims = counted_dims("amax", dim, a.ndim)
        if part and 0 in [a.shape[d] for d in ctx.dims]:
            return nothing_chosen(a, ctx.dims, keepdim, -1)
        check_choice("amax", a, ctx.dims)
        out = reduced(largest_over, a, ctx.dims, keepdim)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        return (shared_by_ties(a, out, ctx.dims, g),)


class Amin(Function):
    """The smallest value; ties share the gradient evenly."""

    signature = reduction_signature
    reduces = "min"
    commutes = "min"

    localize = localized_choice

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False, part: bool = False) -> Array:
        ctx.dims = counted_dims("amin", dim, a.ndim)
        if part and 0 in [a.shape[d] for d in ctx.dims]:
            return nothing_chosen(a, ctx.dims, keepdim, 1)
        check_choice("amin", a, ctx.dims)
        out = reduced(smallest_over, a, ctx.dims, keepdim)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        return (shared_by_ties(a, out, ctx.dims, g),)


def shared_by_ties(a: Any, out: Any, dims: tuple[int, ...], g: Any) -> Any:
    """Give the gradient `g` of `out`, chosen from `a`, to all that equal it; NaN is taken to equal NaN."""
    kept = kept_shape(a.shape, dims)
    out = np.reshape(out, kept)
    hit = (a == out) | ((a != a) & (out != out))
    count = np.sum(hit, axis=dims, keepdims=True)
    return np.where(hit, np.reshape(g, kept) / count.astype(g.dtype), 0.0)


class Argmax(Function):
    """The index of the first largest value along a dim, int64."""

    signature = whole_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        return np.argmax(a, axis=_axis("argmax", a, dim), keepdims=keepdim)


class Argmin(Function):
    """The index of the first smallest value along a dim, int64."""

    signature = whole_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        return np.argmin(a, axis=_axis("argmin", a, dim), keepdims=keepdim)


def _axis(op: str, a: Array, dim: int | None) -> int | None:
    check_choice(op, a, counted_dims(op, dim, a.ndim))
    return None if dim is None or a.ndim == 0 else counted_dim(op, dim, a.ndim)


class Max(Function):
    """The largest value along a dim and its index; of ties the first, which gets the gradient."""

    signature = choosing_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        dim = counted_dim("max", dim, a.ndim)
        check_choice("max", a, (dim,))
        return chosen(ctx, a, np.argmax(a, axis=dim, keepdims=True), dim, keepdim)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (placed(ctx, g),)


class Min(Function):
    """The smallest value along a dim and its index; of ties the first, which gets the gradient."""

    signature = choosing_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        dim = counted_dim("min", dim, a.ndim)
        check_choice("min", a, (dim,))
        return chosen(ctx, a, np.argmin(a, axis=dim, keepdims=True), dim, keepdim)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (placed(ctx, g),)
