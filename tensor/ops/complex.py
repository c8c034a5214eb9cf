"""Complex numbers of their two parts."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Complex"]


class Complex(Function):
    """``real + i imag``, without arithmetic: infinite parts stay apart."""

    signature = "*"
    linear = "all"
    exact = True

    @staticmethod
    def forward(ctx: Context, real: Array, imag: Array) -> Array:
        dtype = np.result_type(real, imag, np.complex64)
        out = np.empty_like(real, shape=np.broadcast_shapes(real.shape, imag.shape), dtype=dtype)
        out.real[...] = real
        out.imag[...] = imag
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return np.real(g), np.imag(g)
