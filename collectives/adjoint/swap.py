"""Collectives on the tape in which every rank has a part for every other; see `alike.py`."""

from __future__ import annotations

from collections.abc import Sequence

from shardwise.backend.array import Array, Shape
from shardwise.collectives.adjoint.rule import LETTERS, signature
from shardwise.collectives.form.operand import itself
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.swap import issue_all_to_all, issue_all_to_all_single
from shardwise.tensor import Context, Function

__all__ = ["AllToAll", "AllToAllSingle"]


def _first_dim_changes(shapes: tuple[Shape, ...], params: dict[str, object]) -> str:
    names = LETTERS[: len(shapes[0])]
    left = "".join(f"[{name}]" for name in names)
    return f"{left}->[{names[0].upper()}]{left[3:]}"


class AllToAll(Function):
    """Give every rank its part, and concatenate what comes back."""

    signature = signature
    exact = True

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        group: ProcessGroup | None,
        split_dim: int,
        concat_dim: int | None,
        split_sizes: Sequence[int] | None = None,
        concat_sizes: Sequence[int] | None = None,
    ) -> Array:
        ctx.group = group
        ctx.dims = (split_dim, split_dim if concat_dim is None else concat_dim)
        ctx.sizes = (split_sizes, concat_sizes)
        work = issue_all_to_all(
            x, group, split_dim, concat_dim, split_sizes, concat_sizes, None, itself, False
        )
        return work.wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        split_dim, concat_dim = ctx.dims
        split_sizes, concat_sizes = ctx.sizes
        back = AllToAll.apply(
            g,
            group=ctx.group,
            split_dim=concat_dim,
            concat_dim=split_dim,
            split_sizes=concat_sizes,
            concat_sizes=split_sizes,
        )
        return (back,)


class AllToAllSingle(Function):
    """Give every rank its stretch of dim 0, and concatenate what comes back."""

    signature = _first_dim_changes
    exact = True

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        output_split_sizes: Sequence[int] | None,
        input_split_sizes: Sequence[int] | None,
        group: ProcessGroup | None,
    ) -> Array:
        ctx.sizes, ctx.group = (output_split_sizes, input_split_sizes), group
        return issue_all_to_all_single(
            x, output_split_sizes, input_split_sizes, group, None, itself, False
        ).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        came, went = ctx.sizes
        back = AllToAllSingle.apply(g, output_split_sizes=went, input_split_sizes=came, group=ctx.group)
        return (back,)
