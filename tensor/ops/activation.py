"""Activations with fused kernels."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.activation.activation import (
    gelu_backward,
    gelu_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
)
from shardwise.backend.kernels.row.softmax import (
    log_softmax_backward,
    log_softmax_forward,
    softmax_backward,
    softmax_forward,
)
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Gelu", "GeluTanh", "LogSoftmax", "Softmax"]


class Gelu(Function):
    """``x * Phi(x)`` with the exact normal distribution function (Hendrycks and Gimpel 2016)."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return gelu_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (gelu_backward(g, x),)


class GeluTanh(Function):
    """GELU by its tanh approximation (Hendrycks and Gimpel 2016, section 2)."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return gelu_tanh_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (gelu_tanh_backward(g, x),)


class Softmax(Function):
    """Softmax over the last dim."""

    signature = "...[d]->...[d]"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        out = softmax_forward(x)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (softmax_backward(g, out),)


class LogSoftmax(Function):
    """Logarithm of the softmax over the last dim."""

    signature = "...[d]->...[d]"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        out = log_softmax_forward(x)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (log_softmax_backward(g, out),)
