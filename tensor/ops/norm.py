"""Normalisation: of the last dim, of channels over the batch, of groups of channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.channel.batch_norm import batch_norm_backward, batch_norm_forward
from shardwise.backend.kernels.channel.group_norm import group_norm_backward, group_norm_forward
from shardwise.backend.kernels.row.norm import layer_norm_backward, layer_norm_forward
from shardwise.backend.kernels.row.rms_norm import rms_norm_backward, rms_norm_forward
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.signature import Part

__all__ = ["BatchNorm", "GroupNorm", "LayerNorm", "RMSNorm", "Running", "move_running"]

Running = tuple[Array, Array] | None
"""Running mean and variance, shape (channels,), which the op moves on."""


class LayerNorm(Function):
    """Layer normalisation over the last dim (Ba, Kiros, Hinton 2016)."""

    signature = "...[d],[d],[d]->...[d]"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
        out, mean, rstd = layer_norm_forward(x, weight, bias, eps)
        ctx.eps = eps
        ctx.save(x, weight, mean, rstd)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight, mean, rstd = ctx.saved
        dx, dweight, dbias = layer_norm_backward(g, x, weight, mean, rstd, ctx.eps)
        return dx, dweight, dbias


class RMSNorm(Function):
    """Division of the last dim by its root mean square (Zhang, Sennrich 2019)."""

    signature = "...[d],[d]->...[d]"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, weight: Array | None, eps: float) -> Array:
        out, scale = rms_norm_forward(x, weight, eps)
        ctx.eps = eps
        ctx.save(x, weight, scale)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight, scale = ctx.saved
        return rms_norm_backward(g, x, weight, scale, ctx.eps)


def _places(shape: Shape) -> str:
    """Letters for the dims behind the channels, which must be whole."""
    return "".join(f"[{letter}]" for letter in "defghijklmopqrstuvwxyz"[: len(shape) - 2])


def _batch_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    places = _places(shapes[0])
    channels = "c" if params.get("running") is None else "[c]"  # the statistics are those of all channels
    return f"[n]{channels}{places}{f',{channels}' * (len(shapes) - 1)}->[n]{channels}{places}"


class BatchNorm(Function):
    """Normalisation of each channel over batch and places (Ioffe, Szegedy 2015).

    `running` statistics are moved towards those of the batch by `momentum`; the variance that goes into
    them is the corrected one.
    """

    signature = _batch_signature
    precision = "wide"

    @staticmethod
    def forward(
        ctx: Context, x: Array, weight: Array | None, bias: Array | None, eps: float,
        running: Running = None, momentum: float = 0.0,
    ) -> Array:  # fmt: skip
        out, mean, variance = batch_norm_forward(x, weight, bias, eps)
        if running is not None:
            move_running(running, mean, variance, x.size // x.shape[1], momentum)
        ctx.eps = eps
        ctx.save(x, weight, mean, variance)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight, mean, variance = ctx.saved
        return batch_norm_backward(g, x, weight, mean, variance, ctx.eps)


def _group_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    places = _places(shapes[0])
    alone = shapes[0][1] == params["groups"] and params.get("running") is None
    channels = "c" if alone else "[c]"
    return f"n{channels}{places}{f',{channels}' * (len(shapes) - 1)}->n{channels}{places}"


class GroupNorm(Function):
    """Normalisation of each sample over groups of channels and places (Wu, He 2018).

    `running` statistics, for groups of one channel, are moved towards the batch's mean ones by
    `momentum`; the variance that goes into them is the corrected one.
    """

    signature = _group_signature
    precision = "wide"

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        part, whole = inputs[0].shape[1], inputs[0].whole[1]
        return {**params, "groups": max(params["groups"] * part // max(whole, 1), 1)}

    @staticmethod
    def forward(
        ctx: Context, x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float,
        running: Running = None, momentum: float = 0.0,
    ) -> Array:  # fmt: skip
        out, mean, variance = group_norm_forward(x, weight, bias, groups, eps)
        if running is not None:
            means = np.mean(mean, axis=0), np.mean(variance, axis=0)
            move_running(running, *means, x.size // (x.shape[0] * groups), momentum)
        ctx.groups, ctx.eps = groups, eps
        ctx.save(x, weight, mean, variance)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight, mean, variance = ctx.saved
        return group_norm_backward(g, x, weight, mean, variance, ctx.groups, ctx.eps)


def move_running(
    running: tuple[Array, Array], mean: Array, variance: Array, count: int, momentum: float
) -> None:
    """Move running statistics towards those of `count` elements per channel."""
    unbiased = variance * (count / max(count - 1, 1))
    for kept, seen in zip(running, (mean, unbiased), strict=True):
        if type(kept) is type(seen):  # a dry run has no values to write
            kept[...] = kept * (1.0 - momentum) + seen * momentum
