"""Where the tape passes between parts and wholes: `FromLocal`, `ToLocal`, and changes of layout."""

from __future__ import annotations

from typing import Any, ClassVar

from shardwise.backend.array import Array
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.move import moved, moved_later
from shardwise.dtensor.replica import checks_replicas, compare_replicas
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.mode import current_mode
from shardwise.tensor.tape import Node, annotate, record
from shardwise.tensor.tensor import Tensor

__all__ = ["Boundary", "FromLocal", "Relaid", "ToLocal", "cross"]


class Boundary(Function):
    """An op on sharded arrays themselves, not on their parts."""

    exact = True
    shares: ClassVar[bool] = False
    """Does the result look at the memory of the input."""


class Relaid(Boundary):
    """The same values in another layout: the identity, whose gradient may lie as it likes."""

    signature = "*"

    @staticmethod
    def forward(
        ctx: Context, x: ShardedArray, layout: Layout, asked: bool, later: bool = False
    ) -> ShardedArray:
        return moved_later(x, layout) if later else moved(x, layout, asked)

    @staticmethod
    def backward(ctx: Context, g: Any) -> Gradients:
        return (g,)


class ToLocal(Boundary):
    """This rank's part. Its gradients, taken together, lie as `layout` says."""

    signature = "*"
    shares = True

    @staticmethod
    def forward(ctx: Context, x: ShardedArray, layout: Layout) -> Array:
        ctx.layout = layout
        return x.local

    @staticmethod
    def backward(ctx: Context, g: Any) -> Gradients:
        if isinstance(g, Tensor):
            return (cross(FromLocal, g, layout=ctx.layout),)
        if checks_replicas():
            compare_replicas("gradient of to_local", g, ctx.layout)
        return (ShardedArray(g, ctx.layout),)  # type: ignore[return-value]  # travels as arrays do


class FromLocal(Boundary):
    """Parts, taken for a whole that lies as `layout` says; `cotangent` is how its gradient must lie."""

    signature = "*"
    shares = True

    @staticmethod
    def forward(ctx: Context, x: Array, layout: Layout, cotangent: Layout | None = None) -> ShardedArray:
        ctx.layout = layout
        ctx.cotangent = layout.reduced() if cotangent is None else cotangent
        return ShardedArray(x, layout)

    @staticmethod
    def backward(ctx: Context, g: Any) -> Gradients:
        if isinstance(g, Tensor):
            sharded: Any = g
            # What ranks make of it are parts, or terms, as those were that this gathered.
            return (cross(ToLocal, sharded.placed_as(ctx.cotangent), layout=ctx.layout),)
        return (moved(g, ctx.cotangent).local,)


def cross(function: type[Boundary], x: Tensor, **params: Any) -> Any:
    """Run a boundary op on a tensor of either kind, on the tape."""
    mode = current_mode()
    tracked = x.requires_grad and mode.grad
    ctx = Node((True,)) if tracked else Context((False,))
    result = function.forward(ctx, x.data, **params)
    out = ShardedArray.tensor_class(result) if isinstance(result, ShardedArray) else Tensor(result)
    if isinstance(ctx, Node):
        record(ctx, function, (x,), out)
        if mode.watched:
            annotate(ctx, mode)
    if function.shares:
        out.look_at(x)
    return out
