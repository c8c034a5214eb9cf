"""Collectives on the tape: each is linear, and its backward is its adjoint, which is a collective too.

A backward is entered by all ranks, as its forward was: a tensor requires grad on all ranks of the group or on
none, and every rank's loss depends on the result.

=================  =================================================================
forward            backward
=================  =================================================================
all_reduce         all_reduce
all_gather         reduce_scatter
reduce_scatter     all_gather
all_to_all         all_to_all, the two dims swapped
all_to_all_single  all_to_all_single, the two lists of sizes swapped
scan, exscan       the same, from the last rank down
broadcast          reduce to `src`, zeros elsewhere
reduce             broadcast from `dst`
gather             scatter from `dst`
scatter            gather to `src`, zeros elsewhere
send               recv
recv               send
sendrecv           sendrecv, the two peers swapped
=================  =================================================================

Reductions other than sums are not linear. The gradient of min and max goes to those that have the extreme,
evenly; that of a product is multiplied by the other ranks' factors.

This file has those in which all ranks do the same; `swap.py`, `rooted.py` and
`message.py` have the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.collectives.adjoint.rule import entire, signature
from shardwise.collectives.form.operand import itself
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.alike import issue_all_gather, issue_all_reduce, issue_reduce_scatter
from shardwise.collectives.issue.scan import issue_scan
from shardwise.collectives.reduction import Reduction
from shardwise.tensor import Context, Function

__all__ = ["AllGather", "AllReduce", "ReduceScatter", "Scan", "derivative", "is_linear"]


class AllReduce(Function):
    """Reduce every rank's array."""

    signature = signature
    exact = True  # what is narrow is sent so, and added in float32

    @staticmethod
    def forward(ctx: Context, x: Array, op: Reduction, group: ProcessGroup | None) -> Array:
        y = issue_all_reduce(x, op, group, None, itself, False).wait()
        ctx.op, ctx.group = op, entire(group)
        if not is_linear(op):
            ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        total = AllReduce.apply(g, op="sum", group=ctx.group)
        if is_linear(ctx.op):
            return (total / ctx.group.size if ctx.op == "avg" else total,)
        x, y = ctx.saved
        return (derivative(ctx.op, x, y, ctx.group) * total,)


class AllGather(Function):
    """Concatenate every rank's array."""

    signature = signature
    exact = True

    @staticmethod
    def forward(
        ctx: Context, x: Array, group: ProcessGroup | None, dim: int, sizes: Sequence[int] | None = None
    ) -> Array:
        ctx.shape, ctx.group, ctx.dim, ctx.sizes = x.shape, group, dim, sizes
        return issue_all_gather(x, group, dim, sizes, None, itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        part = ReduceScatter.apply(g, op="sum", group=ctx.group, dim=ctx.dim, sizes=ctx.sizes)
        return (np.reshape(part, ctx.shape),)


class ReduceScatter(Function):
    """Reduce every rank's array and keep this rank's part."""

    signature = signature
    exact = True

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        op: Reduction,
        group: ProcessGroup | None,
        dim: int,
        sizes: Sequence[int] | None = None,
    ) -> Array:
        ctx.op, ctx.group, ctx.dim, ctx.sizes = op, entire(group), dim, sizes
        y = issue_reduce_scatter(x, op, group, dim, sizes, None, itself, False).wait()
        if not is_linear(op):
            ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        whole = AllGather.apply(g, group=ctx.group, dim=ctx.dim, sizes=ctx.sizes)
        if is_linear(ctx.op):
            return (whole / ctx.group.size if ctx.op == "avg" else whole,)
        x, y = ctx.saved
        extreme = AllGather.apply(y, group=ctx.group, dim=ctx.dim, sizes=ctx.sizes)
        return (derivative(ctx.op, x, extreme, ctx.group) * whole,)


class Scan(Function):
    """Reduce the arrays of the ranks up to this one, with a gradient for sums."""

    signature = signature
    exact = True

    @staticmethod
    def forward(
        ctx: Context, x: Array, op: Reduction, group: ProcessGroup | None, exclusive: bool, reverse: bool
    ) -> Array:
        if ctx.need[0] and op != "sum":
            name = "exscan" if exclusive else "scan"
            raise AutogradError(
                f"{name} with op={op!r} has no gradient; use all_gather, and cumulate along a dim."
            )
        ctx.group, ctx.exclusive, ctx.reverse = group, exclusive, reverse
        return issue_scan(x, op, group, exclusive, reverse, None, itself, False).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        back = not ctx.reverse
        return (Scan.apply(g, op="sum", group=ctx.group, exclusive=ctx.exclusive, reverse=back),)


def is_linear(op: Reduction) -> bool:
    """Say whether a reduction is a sum, perhaps of parts."""
    return op in ("sum", "avg")


def derivative(op: Reduction, x: Array, y: Array, group: ProcessGroup) -> Array:
    """Give how the result `y` of a reduction changes with this rank's `x`, element by element."""
    if op == "prod":
        # Not y / x, which fails at zeros.
        rows = AllGather.apply(np.reshape(x, (1, *x.shape)), group=group, dim=0)
        others: Array = np.ones_like(x)
        for i in range(group.size):
            if i != group.rank:
                others = others * rows[i]
        return np.conj(others) if x.dtype.kind == "c" else others
    # Those that have the extreme share its gradient evenly, as in amax over one array.
    has: Array = (x == y).astype(x.dtype)
    count = AllReduce.apply(has, op="sum", group=group)
    share: Array = has / np.maximum(count, 1.0)  # no rank has a NaN
    return share
