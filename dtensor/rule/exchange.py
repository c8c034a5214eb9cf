"""Rows that are sent to the ranks that own them, and rows that are fetched from there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import IndexRangeError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives import (
    ProcessGroup,
    all_gather,
    all_gather_object,
    all_to_all_single,
    get_world,
    implicit,
)
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Replicate
from shardwise.dtensor.redistribute.box import line
from shardwise.dtensor.rule.case import Case, Play, carried, lengths
from shardwise.tensor.function import Context, Gradients
from shardwise.tensor.ops import take
from shardwise.tensor.ops.bound import check_index

__all__ = ["Fetch", "fetch_rule", "owners", "peers", "sent_to"]


def peers(layout: Layout, dim: int) -> tuple[ProcessGroup, int]:
    """Return the ranks that share the pieces of a dim, in their order, and which piece is here."""
    here = layout.mesh.get_coordinate() or ()
    members = line(layout.mesh, here, layout.order[dim])
    ranks = tuple([int(layout.mesh.mesh[at]) for at in members])
    return get_world().group(ranks), members.index(here)


def owners(layout: Layout, dim: int, places: Array) -> Array:
    """Return in which piece of a dim each place lies."""
    ends = np.array([stop for _, stop in layout.ranges[dim]])
    return np.searchsorted(ends, places, side="right")


class Sent(NamedTuple):
    """What came, and what brings answers back.

    Attributes
    ----------
    rows : Array
        What came, in the order of the senders.
    order : Array
        In which order what was sent went out.
    goes, comes : list of int
        How many rows to and from each rank.
    """

    rows: Array
    order: Array
    goes: list[int]
    comes: list[int]


def sent_to(
    group: ProcessGroup, piece: int, rows: Array, owner: Array, fault: IndexError | None = None
) -> Sent:
    """Send each row to the rank that `owner` numbers; rows of one rank keep their order.

    Two collectives: one of the counts, one of the rows. A `fault` that a rank finds with its own rows goes
    with the counts, and all ranks raise.
    """
    order = np.argsort(owner, kind="stable")
    goes = np.bincount(owner, minlength=group.size).astype(np.int64)
    if fault is not None:
        goes[:] = -1
    with implicit():
        counts = all_gather(goes[None], group)
        wrong = np.flatnonzero(counts[:, 0] < 0)
        if wrong.size:
            said = all_gather_object(None if fault is None else str(fault), group)
            raise IndexRangeError(f"rank {group.ranks[wrong[0]]}: {said[wrong[0]]}") from fault
        comes = counts[:, piece]
        came = all_to_all_single(np.ascontiguousarray(rows[order]), comes.tolist(), goes.tolist(), group)
    return Sent(came, order, goes.tolist(), comes.tolist())


def answered(group: ProcessGroup, way: Sent, rows: Array) -> Array:
    """Return rows, one for each that came, to where those were from, in their order there."""
    with implicit():
        back = all_to_all_single(np.ascontiguousarray(rows), way.goes, way.comes, group)
    out = np.empty_like(back)
    out[way.order] = back
    return out


def _fault(index: Array, size: int, dim: int, negative: bool) -> IndexError | None:
    """Return what is wrong with the values of an index, if anything."""
    try:
        check_index("index_select", index, size, dim, negative)
    except IndexRangeError as error:
        return error
    return None


class Fetch(take.IndexSelect):
    """Slices along a dim that is cut, named by indices that are cut by the same axes: asked for, and sent.

    `lies` is how the whole lies.
    """

    @staticmethod
    def forward(
        ctx: Context, a: Array, index: Array, dim: int, negative: bool = False, lies: Layout | None = None
    ) -> Array:
        ctx.lies = None if isinstance(a, ShapeArray) else lies
        if lies is None or isinstance(a, ShapeArray):
            return take.IndexSelect.forward(ctx, a, index, dim, negative)
        ctx.dim = dim = dim % a.ndim
        group, piece = peers(lies, dim)
        fault = _fault(index, lies.shape[dim], dim, negative)
        places = np.where(index < 0, index + lies.shape[dim], index).astype(np.int64)
        owner = owners(lies, dim, places) if fault is None else np.zeros_like(places)
        way = ctx.way = sent_to(group, piece, places, owner, fault)
        ctx.asked = way.rows - lies.ranges[dim][piece][0]
        ctx.size = a.shape[dim]
        ctx.save(index)
        rows = answered(group, way, np.moveaxis(a, dim, 0)[ctx.asked])
        return np.ascontiguousarray(np.moveaxis(rows, 0, dim))

    @staticmethod
    def backward(ctx: Context, g: Any) -> Gradients:
        if ctx.lies is None:
            return take.IndexSelect.backward(ctx, g)
        group, _ = peers(ctx.lies, ctx.dim)
        way: Sent = ctx.way
        rows = np.ascontiguousarray(np.moveaxis(g, ctx.dim, 0)[way.order])
        with implicit():
            came = all_to_all_single(rows, way.comes, way.goes, group)
        return take.Unselect.apply(np.moveaxis(came, 0, ctx.dim), ctx.asked, size=ctx.size, dim=ctx.dim), None


def fetch_rule(case: Case, dim: int) -> Play | None:
    """Return how slices are fetched where index and table are cut alike; None where they are not."""
    table, places = case.first, case.layouts[1]
    if places is None or places.ndim != 1 or not places.order[0] or places.order[0] != table.order[dim]:
        return None
    (result,), _ = case.results()
    index_layout = Layout.of(
        places.mesh,
        tuple([p if axis in places.order[0] else Replicate() for axis, p in enumerate(places.placements)]),
        places.order,
        places.shape,
        places.dtype,
    )
    source = case.moving(table)
    target = carried(source, result.shape, range(table.ndim), {dim: lengths(index_layout, 0)})
    strategy = case.strategy([source, index_layout], [target], Fetch)
    return lambda perform, args, params: perform(strategy, args, {**params, "lies": source})
