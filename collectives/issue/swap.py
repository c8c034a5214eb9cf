"""The collectives on arrays in which every rank has a part for every other: checked, and issued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives.context import entered_group
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.buffer import is_plain, output_rows, plain_output
from shardwise.collectives.issue.check import check_dim, check_parts, check_share, check_sizes, check_swap
from shardwise.collectives.issue.operation import Wrap, dry, given, submit
from shardwise.collectives.issue.placed import LARGE_WHOLE, is_large, swap_placed
from shardwise.collectives.issue.uneven import swap
from shardwise.collectives.layout import concatenated, divided, resized, split
from shardwise.collectives.pending import Pending
from shardwise.collectives.transport import Channel
from shardwise.collectives.work import Work

__all__ = ["issue_all_to_all", "issue_all_to_all_single"]

T = TypeVar("T")


def issue_all_to_all(
    x: Array,
    group: ProcessGroup | None,
    split_dim: int,
    concat_dim: int | None,
    split_sizes: Sequence[int] | None,
    concat_sizes: Sequence[int] | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to give each rank its part of `x`, and to concatenate what comes back."""
    group = entered_group(group, "all_to_all")
    whole_parts = split_dim == 0 and concat_dim in (None, 0) and split_sizes is None and concat_sizes is None
    if whole_parts and is_plain(x) and x.nbytes < LARGE_WHOLE and x.ndim and x.shape[0] % group.size == 0:
        whole = plain_output(out, x.shape, x)
        if whole is not None:
            shape = (group.size, x.shape[0] // group.size, *x.shape[1:])
            gone, come = x.reshape(shape), whole.reshape(shape)
            return group.submit(
                "all_to_all",
                None,
                x.dtype,
                x.shape,
                lambda on: on.all_to_all(gone, come),
                lambda: wrap(whole),
                background,
            )
    x = given(x, "all_to_all", group)
    split_dim = check_dim(split_dim, x.ndim, "all_to_all", group, "split_dim")
    concat_dim = (
        split_dim if concat_dim is None else check_dim(concat_dim, x.ndim, "all_to_all", group, "concat_dim")
    )
    if split_sizes is not None or concat_sizes is not None:
        goes, comes = check_swap(x.shape, split_dim, concat_dim, split_sizes, concat_sizes, group)
        if len(set(goes)) > 1 or len(set(comes)) > 1:
            part = resized(x.shape, split_dim, goes[group.member("all_to_all")])
            return swap(
                "all_to_all", x, group, split_dim, concat_dim, goes, comes, part, out, wrap, background
            )
    check_parts(x.shape, split_dim, "all_to_all", group)
    part = divided(x.shape, group.size, split_dim)
    if isinstance(x, ShapeArray):
        return dry("all_to_all", None, group, x, concatenated(part, group.size, concat_dim), wrap)

    def ordinary() -> tuple[Callable[[Channel], Pending], Callable[[], T]]:
        sent = split(x, group.size, split_dim)
        if out is not None and np.may_share_memory(sent, out):
            sent = sent.copy()
        rows, finish = output_rows(out, sent[0, ...], concat_dim, "all_to_all", group, wrap)
        return lambda on: on.all_to_all(sent, rows), finish

    if is_large(x, x.nbytes, group, split_dim > 0 or concat_dim > 0):
        goes, comes = (part[split_dim],) * group.size, (part[concat_dim],) * group.size
        return swap_placed(
            x, group, split_dim, concat_dim, goes, comes, out is None, ordinary, wrap, background
        )
    start, finish = ordinary()
    return submit("all_to_all", None, group, x, start, finish, background)


def issue_all_to_all_single(
    x: Array,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: ProcessGroup | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to give each rank its stretch of dim 0 of `x`, and to concatenate what comes."""
    op = "all_to_all_single"
    group = entered_group(group, op)
    x = given(x, op, group)
    check_dim(0, x.ndim, op, group)
    if input_split_sizes is None:
        check_parts(x.shape, 0, op, group)
        sent: Sequence[int] = (x.shape[0] // group.size,) * group.size
    else:
        sent = check_sizes(input_split_sizes, "input_split_sizes", op, group)
        check_share(x.shape, 0, sum(sent), "the sum of input_split_sizes", op, group)
    if output_split_sizes is not None:
        received: Sequence[int] = check_sizes(output_split_sizes, "output_split_sizes", op, group)
    elif input_split_sizes is None:
        received = sent
    elif out is not None:
        check_parts(out.shape, 0, op, group)
        received = (out.shape[0] // group.size,) * group.size
    else:
        raise ShapeError(
            f"{group.where(op)}: input_split_sizes without output_split_sizes or out; say how much comes "
            f"from each rank. If it is not known: all_to_all_single(numpy.array(input_split_sizes))."
        )
    return swap(op, x, group, 0, 0, sent, received, x.shape, out, wrap, background)
