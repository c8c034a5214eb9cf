"""Rotation of pairs of features, by an angle for each position."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Rotary"]


class Rotary(Function):
    """Rotate pairs of features: ``(a, b)`` becomes ``(a cos - b sin, b cos + a sin)`` (Su et al. 2021).

    With `interleaved` the pairs are neighbours, otherwise the first half of the features and the second.
    Features behind the pairs, of which there are as many as cosines, stay as they are.
    """

    signature = "...s[d],...s[e],...s[e]->...s[d]"
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
        ctx.interleaved = interleaved
        ctx.save(x, cos, sin)
        return _rotated(x, cos, sin, interleaved)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, cos, sin = ctx.saved
        dcos = dsin = None
        if ctx.need[1] or ctx.need[2]:
            n = cos.shape[-1]
            (a, b), (ga, gb) = (_pairs(y, n, ctx.interleaved) for y in (x, g))
            dcos, dsin = ga * a + gb * b, gb * a - ga * b
        return _rotated(g, cos, -sin, ctx.interleaved) if ctx.need[0] else None, dcos, dsin


def _pairs(x: Any, n: int, interleaved: bool) -> tuple[Any, Any]:
    if interleaved:
        return x[..., 0 : 2 * n : 2], x[..., 1 : 2 * n : 2]
    return x[..., :n], x[..., n : 2 * n]


def _rotated(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    n = cos.shape[-1]
    a, b = _pairs(x, n, interleaved)
    turned = [a * cos - b * sin, b * cos + a * sin]
    if interleaved:
        joined = np.stack(turned, axis=-1)
        turned = [np.reshape(joined, (*joined.shape[:-2], 2 * n))]
    rest = x[..., 2 * n :]
    if rest.shape[-1]:
        turned.append(rest)
    return np.concatenate(turned, axis=-1) if len(turned) > 1 else turned[0]
