"""Norms, and normalisation over dims that lie in parts: their statistics pass between the ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Shape
from shardwise.backend.kernels.channel.batch_norm import per_channel
from shardwise.backend.kernels.row.norm import check_parameters
from shardwise.backend.kernels.row.rms_norm import check_scale
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.move import moved
from shardwise.dtensor.rule.formula import settled
from shardwise.dtensor.rule.moment import moments
from shardwise.dtensor.rule.skip import is_outside
from shardwise.tensor.dim import Dims, counted_dims
from shardwise.tensor.function import Context, Gradients
from shardwise.tensor.ops.extreme import check_choice
from shardwise.tensor.ops.norm import GroupNorm, Running, move_running
from shardwise.tensor.signature import Dim, Terms, terms_of

__all__ = [
    "batch_norm", "group_norm", "group_norm_backward", "group_terms", "layer_norm", "norm", "rms_norm",
]  # fmt: skip


def norm(ctx: Context, a: Any, p: float = 2.0, dim: Dims = None, keepdim: bool = False) -> Any:
    """The p-norm: one all-reduce of the result's size, and none backward but for ties of p = inf."""
    dims = counted_dims("norm", dim, a.ndim)
    ctx.dims, ctx.p = dims, p
    out = _norm(a, p, dims, keepdim)
    ctx.save(a, out)
    return out


def _norm(a: Any, p: float, dims: tuple[int, ...], keepdim: bool) -> Any:
    if p == 0:
        return settled((a != 0).sum(dims, keepdim=keepdim)).astype(a.real.dtype)
    if p == 2:
        squares = a.real * a.real + a.imag * a.imag if a.dtype.kind == "c" else a * a
        return squares.sum(dims, keepdim=keepdim).sqrt()
    size = a.abs()
    if abs(p) == math.inf:
        check_choice("norm", size, dims)
        return settled(size.amax(dims, keepdim=keepdim) if p > 0 else size.amin(dims, keepdim=keepdim))
    if p == 1:
        return settled(size.sum(dims, keepdim=keepdim))
    return _power(settled(_power(size, p).sum(dims, keepdim=keepdim)), 1.0 / p)


def _power(x: Any, p: float) -> Any:
    """Return ``x ** p`` for x >= 0; infinite without a warning for negative powers of zero."""
    if p > 0:
        return np.power(x, p)
    zero = x == 0
    return np.where(zero, math.inf, np.power(np.where(zero, 1.0, x), p))


def layer_norm(ctx: Context, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Layer normalisation: an all-gather of two numbers per row and rank; two all-reduces backward."""
    check_parameters(x, weight, bias)
    mean, spread = moments(x, (x.ndim - 1,))
    rstd = 1.0 / np.sqrt(spread * (1.0 / max(x.shape[-1], 1)) + eps)
    ctx.eps = eps
    ctx.save(x, weight, np.squeeze(mean, -1), np.squeeze(rstd, -1))
    return _affine((x - mean) * rstd, weight, bias)


def rms_norm(ctx: Context, x: Any, weight: Any, eps: float) -> Any:
    """Division by the root mean square: one all-reduce of a number per row, and one backward."""
    check_scale(x, weight)
    scale = 1.0 / np.sqrt(settled((x * x).mean(-1, keepdim=True)) + eps)
    ctx.eps = eps
    ctx.save(x, weight, np.squeeze(scale, -1))
    return _affine(x * scale, weight, None)


def batch_norm(
    ctx: Context, x: Any, weight: Any, bias: Any, eps: float, running: Running = None, momentum: float = 0.0
) -> Any:
    """Normalisation of channels over a batch in parts: by the statistics of the whole batch.

    They take an all-gather of two numbers per channel and rank. Running statistics move alike on all ranks.
    """
    mean, spread = moments(x, (0, *range(2, x.ndim)))
    count = math.prod(x.shape) // x.shape[1]
    mean, variance = (each.reshape(x.shape[1]) for each in (mean, spread * (1.0 / count)))
    if running is not None and not is_outside(x.layout):
        move_running(running, _everywhere(mean), _everywhere(variance), count, momentum)
    ctx.eps = eps
    ctx.save(x, weight, mean, variance)
    scale = 1.0 / np.sqrt(variance + eps)
    normal = (x - per_channel(mean, x.ndim)) * per_channel(scale, x.ndim)
    return _affine(normal, _column(weight, x.ndim), _column(bias, x.ndim))


def group_norm(
    ctx: Context, x: Any, weight: Any, bias: Any, groups: int, eps: float,
    running: Running = None, momentum: float = 0.0,
) -> Any:  # fmt: skip
    """Normalisation of groups of channels and places, of which some lie in parts."""
    rows = _rows(x, groups)
    dims = tuple(range(2, rows.ndim))
    count = math.prod(rows.shape[2:])
    mean, spread = moments(rows, dims)
    variance = spread * (1.0 / max(count, 1))
    if running is not None and not is_outside(x.layout):
        means, variances = (_everywhere(each.mean(0).reshape(groups)) for each in (mean, variance))
        move_running(running, means, variances, count, momentum)
    ctx.groups, ctx.eps = groups, eps
    ctx.save(x, weight, mean, variance)
    normal = ((rows - mean) * (1.0 / np.sqrt(variance + eps))).reshape(x.shape)
    return _affine(normal, _column(weight, x.ndim), _column(bias, x.ndim))


def group_terms(shapes: Sequence[Shape], params: dict[str, Any], layouts: Sequence[Layout | None]) -> Terms:
    """Let channels be cut between groups; running statistics need all of them."""
    terms = terms_of(GroupNorm, tuple(shapes), params)
    layout, channels = layouts[0], shapes[0][1]
    size = channels // params["groups"]
    if layout is None or params.get("running") is not None or not size:
        return terms
    others = {axis for other in layouts[1:] if other is not None for axis in other.order[0]}
    between = all(start % size == 0 and stop % size == 0 for start, stop in layout.ranges[1])
    if not between or not others <= set(layout.order[1]):  # on those axes channels may be cut anywhere
        return terms

    def freed(term: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return tuple([Dim("c") if dim.name == "c" else dim for dim in term])

    return Terms(tuple(map(freed, terms.inputs)), tuple(map(freed, terms.outputs)))


def group_norm_backward(ctx: Context, g: Any) -> Gradients:
    """The gradients of `group_norm`, with channels and places as dims of their own, which may be cut."""
    x, weight, mean, variance = ctx.saved
    rows = _rows(x, ctx.groups)
    dims = tuple(range(2, rows.ndim))
    if mean is None or variance is None:
        centred = rows - np.mean(rows, axis=dims, keepdims=True)
        variance = np.mean(centred * centred, axis=dims, keepdims=True)
    else:
        centred = rows - mean
    scale = 1.0 / np.sqrt(variance + ctx.eps)
    normal = centred * scale
    weighted = _rows(g if weight is None else g * per_channel(weight, x.ndim), ctx.groups)
    inner = np.mean(weighted * normal, axis=dims, keepdims=True)
    centre = np.mean(weighted, axis=dims, keepdims=True)
    dx = np.reshape((weighted - centre - normal * inner) * scale, x.shape)
    others = (0, *range(2, x.ndim))
    dweight = np.sum(g * np.reshape(normal, x.shape), axis=others)
    return dx, dweight, np.sum(g, axis=others)


def _rows(x: Any, groups: int) -> Any:
    return np.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


def _column(values: Any, ndim: int) -> Any:
    return None if values is None else per_channel(values, ndim)


def _everywhere(x: Any) -> Any:
    """Return the array of a whole DTensor."""
    return moved(x.data, x.layout.replicated()).local
