"""Rows of a table: looked up with gradients that are weighed, and added up by bag."""

from __future__ import annotations

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.place.embedding import embedding_backward
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["BagSum", "WeighedEmbedding"]


class WeighedEmbedding(Function):
    """Rows of `weight` chosen by integers; the gradient of each look-up is multiplied by its `factor`.

    A factor of 0 keeps a row of padding from learning, 1/n divides by how often a row was looked up.
    """

    signature = "[v]d,...,...->...d"
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, weight: Array, index: Array, factor: Array) -> Array:
        ctx.rows = weight.shape[0]
        ctx.save(index, factor)
        return np.take(weight, index, axis=0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        index, factor = ctx.saved
        return embedding_backward(g * np.expand_dims(factor, -1), index, ctx.rows), None, None


class BagSum(Function):
    """Rows added up by bag: row ``i`` of the input goes to bag ``bag[i]`` of `bags`."""

    signature = "nd,n->[b]d"
    linear = (0,)
    reduces = "sum"

    @staticmethod
    def forward(ctx: Context, rows: Array, bag: Array, bags: int) -> Array:
        ctx.save(bag)
        return special.scatter_add((bags, rows.shape[-1]), bag, rows)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (bag,) = ctx.saved
        return np.take(g, bag, axis=0), None
