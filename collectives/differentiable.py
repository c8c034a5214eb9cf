"""Collectives on the tape: each is linear, and its backward is its adjoint, which is a collective too.

A backward is entered by all ranks, as its forward was: a tensor requires grad on all ranks of the group or on
none, and every rank's loss depends on the result.

==============  ======================================================
forward         backward
==============  ======================================================
all_reduce      all_reduce (of min and max: to those that have it)
all_gather      reduce_scatter
reduce_scatter  all_gather
all_to_all      all_to_all, the two dims swapped
broadcast       reduce to `src`, zeros elsewhere
reduce          broadcast from `dst`
gather          scatter from `dst`
scatter         gather to `src`, zeros elsewhere
send            recv
recv            send
==============  ======================================================
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import AutogradError
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue import (
    issue_all_gather,
    issue_all_reduce,
    issue_all_to_all,
    issue_broadcast,
    issue_gather,
    issue_reduce,
    issue_reduce_scatter,
    issue_scatter,
)
from shardwise.collectives.issue_message import issue_recv, issue_send
from shardwise.collectives.layout import concatenated
from shardwise.collectives.reduction import ReduceOp
from shardwise.collectives.tag import Kind
from shardwise.collectives.world import get_world
from shardwise.tensor import Context, Function

__all__ = [
    "AllGather",
    "AllReduce",
    "AllToAll",
    "Broadcast",
    "Gather",
    "Recv",
    "Reduce",
    "ReduceScatter",
    "Scatter",
    "Send",
]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIMS = ("dim", "split_dim", "concat_dim")


def _signature(shapes: tuple[Shape, ...], params: dict[str, object]) -> str:
    """Every dim is whole, since an element moves to other ranks; those that change size change letters."""
    names = _LETTERS[: len(shapes[0])]
    rank = len(names)
    changed = {place % max(rank, 1) for place in (params.get(key) for key in _DIMS) if isinstance(place, int)}
    left = "".join(f"[{name}]" for name in names)
    right = "".join(f"[{name.upper() if i in changed else name}]" for i, name in enumerate(names))
    return f"{left}->{right or ('[A]' if changed else '')}"


def _sent_signature(shapes: tuple[Shape, ...], params: dict[str, object]) -> str:
    """An array of any shape goes, and a number without dims stands for it."""
    return f"{''.join(f'[{name}]' for name in _LETTERS[: len(shapes[0])])}->"


def _received_signature(shapes: tuple[Shape, ...], params: dict[str, object]) -> str:
    """What comes has nothing of the input but its place on the tape."""
    given, shape = len(shapes[0]), params["shape"]
    count = len(shape) if isinstance(shape, tuple) else 1
    names = [f"[{name}]" for name in _LETTERS[: given + count]]
    return f"{''.join(names[:given])}->{''.join(names[given:])}"


class AllReduce(Function):
    """Reduce every rank's array, with a gradient for sum, avg, min and max."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, x: Array, op: ReduceOp, group: ProcessGroup | None) -> Array:
        if ctx.need[0] and op not in ("sum", "avg", "min", "max"):
            raise AutogradError(
                f"all_reduce with op={op!r} has no gradient; use all_gather, and reduce along a dim."
            )
        y = issue_all_reduce(x, op, group, None, _itself, False).wait()
        ctx.op, ctx.group = op, group
        if op in ("min", "max"):
            ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        if ctx.op in ("sum", "avg"):
            return (AllReduce.apply(g, op=ctx.op, group=ctx.group),)
        # Those that have the extreme share its gradient evenly, as in amax over one array.
        x, y = ctx.saved
        has = (x == y).astype(g.dtype)
        share = has / AllReduce.apply(has, op="sum", group=ctx.group)
        return (share * AllReduce.apply(g, op="sum", group=ctx.group),)


class AllGather(Function):
    """Concatenate every rank's array."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, x: Array, group: ProcessGroup | None, dim: int) -> Array:
        ctx.shape, ctx.group, ctx.dim = x.shape, group, dim
        return issue_all_gather(x, group, dim, None, _itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        part = ReduceScatter.apply(g, op="sum", group=ctx.group, dim=ctx.dim)
        return (np.reshape(part, ctx.shape),)


class ReduceScatter(Function):
    """Reduce every rank's array and keep this rank's part, with a gradient for sum and avg."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, x: Array, op: ReduceOp, group: ProcessGroup | None, dim: int) -> Array:
        _prepare(ctx, "reduce_scatter", op, group)
        ctx.dim = dim
        return issue_reduce_scatter(x, op, group, dim, None, _itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (ctx.scale * AllGather.apply(g, group=ctx.group, dim=ctx.dim),)


class AllToAll(Function):
    """Give every rank its part, and concatenate what comes back."""

    signature = _signature

    @staticmethod
    def forward(
        ctx: Context, x: Array, group: ProcessGroup | None, split_dim: int, concat_dim: int | None
    ) -> Array:
        ctx.group = group
        ctx.dims = (split_dim, split_dim if concat_dim is None else concat_dim)
        return issue_all_to_all(x, group, split_dim, concat_dim, None, _itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        split_dim, concat_dim = ctx.dims
        return (AllToAll.apply(g, group=ctx.group, split_dim=concat_dim, concat_dim=split_dim),)


class Broadcast(Function):
    """Give every rank the array of one."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, x: Array, src: int, group: ProcessGroup | None) -> Array:
        ctx.src, ctx.group = src, group
        return issue_broadcast(x, src, group, None, _itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (Reduce.apply(g, dst=ctx.src, op="sum", group=ctx.group),)


class Reduce(Function):
    """Reduce every rank's array on one, with a gradient for sum and avg; the others get zeros."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, x: Array, dst: int, op: ReduceOp, group: ProcessGroup | None) -> Array:
        _prepare(ctx, "reduce", op, group)
        ctx.dst = dst
        y = issue_reduce(x, dst, op, group, None, _itself, False).wait()
        return np.zeros_like(x) if y is None else y

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (ctx.scale * Broadcast.apply(g, src=ctx.dst, group=ctx.group),)


class Gather(Function):
    """Concatenate every rank's array on one; the others get zeros."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, x: Array, dst: int, group: ProcessGroup | None, dim: int) -> Array:
        ctx.shape, ctx.dst, ctx.group, ctx.dim = x.shape, dst, group, dim
        y = issue_gather(x, dst, group, dim, None, _itself, False).wait()
        if y is not None:
            return y
        size = (group or get_world().everyone).size
        return np.zeros(concatenated(x.shape or (1,), size, dim % max(x.ndim, 1)), x.dtype)

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        part = Scatter.apply(g, src=ctx.dst, group=ctx.group, dim=ctx.dim)
        return (np.reshape(part, ctx.shape),)


class Scatter(Function):
    """Give every rank its part of the array of one."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, x: Array, src: int, group: ProcessGroup | None, dim: int) -> Array:
        ctx.src, ctx.group, ctx.dim = src, group, dim
        return issue_scatter(x, src, group, dim, None, _itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (Gather.apply(g, dst=ctx.src, group=ctx.group, dim=ctx.dim),)


class Send(Function):
    """Send an array; the result is a zero without dims whose backward receives the array's gradient."""

    signature = _sent_signature

    @staticmethod
    def forward(ctx: Context, x: Array, dst: int, tag: int, kind: Kind) -> Array:
        ctx.shape, ctx.dtype, ctx.dst, ctx.tag = x.shape, x.dtype, dst, tag
        issue_send(x, dst, tag, kind, False).wait()
        return np.zeros((), x.dtype)

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (Recv.apply(g, shape=ctx.shape, dtype=ctx.dtype, src=ctx.dst, tag=ctx.tag, kind="gradient"),)


class Recv(Function):
    """Receive an array; the input only ties it to the tape, and the backward sends the gradient."""

    signature = _received_signature

    @staticmethod
    def forward(
        ctx: Context, anchor: Array, shape: Shape, dtype: DTypeLike, src: int, tag: int, kind: Kind
    ) -> Array:
        ctx.src, ctx.tag = src, tag
        return issue_recv(shape, dtype, src, tag, kind, None, _itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (Send.apply(g, dst=ctx.src, tag=ctx.tag, kind="gradient"),)


def _itself(array: Array) -> Array:
    return array


def _prepare(ctx: Context, name: str, op: ReduceOp, group: ProcessGroup | None) -> None:
    """Keep the group and the factor of the mean; refuse reductions that have no adjoint."""
    if ctx.need[0] and op not in ("sum", "avg"):
        raise AutogradError(
            f"{name} with op={op!r} has no gradient; use all_reduce for min and max, or all_gather "
            f"and reduce along a dim."
        )
    ctx.group = group if group is not None else get_world().everyone
    ctx.scale = 1.0 / ctx.group.size if op == "avg" else 1.0
