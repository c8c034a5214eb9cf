"""Moving between devices."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.select import backend_of, get_backend
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Transfer"]


class Transfer(Function):
    """The same values on another device; the gradient comes back to the first."""

    signature = "*"
    linear = "all"
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, device: str) -> Array:
        here = backend_of(a)
        ctx.device = here.device_of(a)
        return get_backend(device).asarray(here.to_host(a))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Transfer.apply(g, device=ctx.device),)
