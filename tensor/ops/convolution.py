"""Convolution, and its gradients with respect to input and weight: three ops, each other's gradients.

All take the spatial size of their result, the `padding` in front, and ``stride``, ``dilation`` and
``groups`` of the convolution that they are, or are a gradient of (see `shardwise.backend.correlation`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.correlation import correlate, correlate_input, correlate_weight
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj

__all__ = ["Convolution", "ConvolutionTransposed", "ConvolutionWeight"]

_PLACES, _TAPS, _OUTS = "[x][y][z]", "[r][s][t]", "[u][v][w]"


def _spatial(shapes: tuple[Shape, ...]) -> tuple[str, str, str]:
    """Letters for the dims of places, kernel and outputs; each must be whole."""
    length = 3 * (len(shapes[0]) - 2)
    return _PLACES[:length], _TAPS[:length], _OUTS[:length]


def _forward_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    places, taps, outs = _spatial(shapes)
    bias = len(shapes) > 2
    if params.get("groups", 1) > 1:
        return f"n[c]{places},[k][d]{taps}{',[k]' if bias else ''}->n[k]{outs}"
    return f"nc{places},kc{taps}{',k' if bias else ''}->nk{outs}"


def _transposed_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    places, taps, outs = _spatial(shapes)
    bias = len(shapes) > 2
    if params.get("groups", 1) > 1:
        return f"n[k]{outs},[k][d]{taps}{',[c]' if bias else ''}->n[c]{places}"
    return f"nk{outs},kc{taps}{',c' if bias else ''}->nc{places}"


def _weight_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    places, taps, outs = _spatial(shapes)
    if params.get("groups", 1) > 1:
        return f"n[c]{places},n[k]{outs}->[k][d]{taps}"
    return f"nc{places},nk{outs}->kc{taps}"


class Convolution(Function):
    """Correlate `x` (n, c, ...) with `weight` (k, c / groups, ...), and add `bias` (k,)."""

    signature = _forward_signature
    linear = "each"
    reduces = "sum"
    addends = (2,)
    precision = "narrow"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        """Two per weight and output place that it meets, padding included."""
        return 2 * shapes[0][0] * math.prod(shapes[1]) * math.prod(params["size"])

    @staticmethod
    def forward(
        ctx: Context, x: Array, weight: Array, bias: Array | None, size: Shape, stride: Shape, padding: Shape,
        dilation: Shape, groups: int,
    ) -> Array:  # fmt: skip
        ctx.places, ctx.kernel = x.shape[2:], weight.shape[2:]
        ctx.geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        ctx.save(x if ctx.need[1] else None, weight if ctx.need[0] else None)
        out = correlate(x, weight, size, **ctx.geometry)
        return _shifted(out, bias)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight = ctx.saved
        dx = dweight = None
        if ctx.need[0]:
            dx = ConvolutionTransposed.apply(g, conj(weight), None, size=ctx.places, **ctx.geometry)
        if ctx.need[1]:
            dweight = ConvolutionWeight.apply(conj(x), g, kernel=ctx.kernel, **ctx.geometry)
        return dx, dweight, _over_places(g) if ctx.need[2] else None


class ConvolutionTransposed(Function):
    """The gradient of a convolution with respect to its input, from that of its output, `g` (n, k, ...).

    `weight` is that of the convolution, (k, c / groups, ...). With a `bias` (c,) it is a layer of its own,
    which enlarges.
    """

    signature = _transposed_signature
    linear = "each"
    reduces = "sum"
    addends = (2,)
    precision = "narrow"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        """Two per weight and input place that it meets."""
        return 2 * shapes[0][0] * math.prod(shapes[1]) * math.prod(shapes[0][2:])

    @staticmethod
    def forward(
        ctx: Context, g: Array, weight: Array, bias: Array | None, size: Shape, stride: Shape, padding: Shape,
        dilation: Shape, groups: int,
    ) -> Array:  # fmt: skip
        ctx.outs, ctx.kernel = g.shape[2:], weight.shape[2:]
        ctx.geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        ctx.save(g if ctx.need[1] else None, weight if ctx.need[0] else None)
        out = correlate_input(g, weight, size, **ctx.geometry)
        return _shifted(out, bias)

    @staticmethod
    def backward(ctx: Context, h: Array) -> Gradients:
        g, weight = ctx.saved
        dg = dweight = None
        if ctx.need[0]:
            dg = Convolution.apply(h, conj(weight), None, size=ctx.outs, **ctx.geometry)
        if ctx.need[1]:
            dweight = ConvolutionWeight.apply(h, conj(g), kernel=ctx.kernel, **ctx.geometry)
        return dg, dweight, _over_places(h) if ctx.need[2] else None


class ConvolutionWeight(Function):
    """The gradient of a convolution with respect to its weight, from `x` (n, c, ...) and `g` (n, k, ...)."""

    signature = _weight_signature
    linear = "each"
    reduces = "sum"
    precision = "narrow"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        """As many as the convolution."""
        (n, c, *_), (_, k, *out) = shapes
        return 2 * n * k * (c // params["groups"]) * math.prod(params["kernel"]) * math.prod(out)

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        g: Array,
        kernel: Shape,
        stride: Shape,
        padding: Shape,
        dilation: Shape,
        groups: int,
    ) -> Array:
        ctx.places, ctx.outs = x.shape[2:], g.shape[2:]
        ctx.geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        ctx.save(x if ctx.need[1] else None, g if ctx.need[0] else None)
        return correlate_weight(x, g, kernel, **ctx.geometry)

    @staticmethod
    def backward(ctx: Context, h: Array) -> Gradients:
        x, g = ctx.saved
        dx = dg = None
        if ctx.need[0]:
            dx = ConvolutionTransposed.apply(conj(g), h, None, size=ctx.places, **ctx.geometry)
        if ctx.need[1]:
            dg = Convolution.apply(conj(x), h, None, size=ctx.outs, **ctx.geometry)
        return dx, dg


def _shifted(out: Array, bias: Array | None) -> Array:
    """Add one number per channel, into `out`, which is ours."""
    if bias is not None:
        out += np.reshape(bias, (-1, *(1,) * (out.ndim - 2)))
    return out


def _over_places(g: Any) -> Any:
    """Add up over images and places: the gradient of a bias."""
    return np.sum(g, axis=(0, *range(2, g.ndim)))
