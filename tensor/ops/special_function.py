"""The error function and its kind, element by element."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Erf"]


class Erf(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return special.erf(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * ((2.0 / math.sqrt(math.pi)) * np.exp(-a * a)),)
