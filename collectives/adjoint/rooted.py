"""Collectives on the tape in which one rank is special; see `alike.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.adjoint.alike import derivative, is_linear
from shardwise.collectives.adjoint.rule import entire, signature
from shardwise.collectives.form.operand import itself
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.rooted import issue_broadcast, issue_gather, issue_reduce, issue_scatter
from shardwise.collectives.layout import resized
from shardwise.collectives.reduction import Reduction
from shardwise.tensor import Context, Function

__all__ = ["Broadcast", "Gather", "Reduce", "Scatter"]


class Broadcast(Function):
    """Give every rank the array of one."""

    signature = signature
    exact = True

    @staticmethod
    def forward(ctx: Context, x: Array, src: int, group: ProcessGroup | None) -> Array:
        ctx.src, ctx.group = src, group
        return issue_broadcast(x, src, group, None, itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (Reduce.apply(g, dst=ctx.src, op="sum", group=ctx.group),)


class Reduce(Function):
    """Reduce every rank's array on one; the others get zeros."""

    signature = signature
    exact = True

    @staticmethod
    def forward(ctx: Context, x: Array, dst: int, op: Reduction, group: ProcessGroup | None) -> Array:
        ctx.op, ctx.dst, ctx.group = op, dst, entire(group)
        got = issue_reduce(x, dst, op, group, None, itself, False).wait()
        y = np.zeros_like(x) if got is None else got
        if not is_linear(op):
            ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        back = Broadcast.apply(g, src=ctx.dst, group=ctx.group)
        if is_linear(ctx.op):
            return (back / ctx.group.size if ctx.op == "avg" else back,)
        x, y = ctx.saved
        extreme = Broadcast.apply(y, src=ctx.dst, group=ctx.group)
        return (derivative(ctx.op, x, extreme, ctx.group) * back,)


class Gather(Function):
    """Concatenate every rank's array on one; the others get zeros."""

    signature = signature
    exact = True

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        dst: int,
        group: ProcessGroup | None,
        dim: int,
        sizes: Sequence[int] | None = None,
    ) -> Array:
        ctx.shape, ctx.dst, ctx.group, ctx.dim, ctx.sizes = x.shape, dst, group, dim, sizes
        y = issue_gather(x, dst, group, dim, sizes, None, itself, False).wait()
        if y is not None:
            return y
        shape, place = x.shape or (1,), dim % max(x.ndim, 1)
        extent = shape[place] * entire(group).size if sizes is None else sum(sizes)
        return np.zeros_like(x, shape=resized(shape, place, extent))

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        part = Scatter.apply(g, src=ctx.dst, group=ctx.group, dim=ctx.dim, sizes=ctx.sizes)
        return (np.reshape(part, ctx.shape),)


class Scatter(Function):
    """Give every rank its part of the array of one."""

    signature = signature
    exact = True

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        src: int,
        group: ProcessGroup | None,
        dim: int,
        sizes: Sequence[int] | None = None,
    ) -> Array:
        ctx.src, ctx.group, ctx.dim, ctx.sizes = src, group, dim, sizes
        return issue_scatter(x, src, group, dim, sizes, None, itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (Gather.apply(g, dst=ctx.src, group=ctx.group, dim=ctx.dim, sizes=ctx.sizes),)
