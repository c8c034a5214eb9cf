"""Joining along a sharded dim, and padding its ends."""

from __future__ import annotations

from typing import Any

from shardwise.backend.array import Shape
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard
from shardwise.dtensor.rule.case import Case, Perform, Play, carried, lengths
from shardwise.dtensor.strategy import Strategy
from shardwise.tensor.ops import index, joining, padding, repetition
from shardwise.tensor.signature import Part

__all__ = ["cat_rule", "pad_rule"]


def cat_rule(case: Case) -> Strategy | None:
    """Bring to each rank what of each input lies in its piece of the result, and join that."""
    layouts = [layout for layout in case.layouts if layout is not None]
    if len(layouts) < len(case.layouts) or not layouts[0].ndim:
        return None
    dim = case.params.get("dim", 0) % layouts[0].ndim
    lead = next((layout for layout in layouts if layout.order[dim] and layout.numel), None)
    if lead is None:
        return None
    results, _ = case.results()
    shape, dtype = results[0].shape, results[0].dtype
    kinds = [_placement(axis, layouts, lead, dim, case.tracked) for axis in range(lead.mesh.ndim)]
    order = [
        [axis for axis in lead.order[d] if _cuts(kinds[axis], d)]
        + [axis for axis, kind in enumerate(kinds) if _cuts(kind, d) and axis not in lead.order[d]]
        for d in range(lead.ndim)
    ]
    for d, axes in enumerate(order):
        sizes = _sizes_of(lead, d, axes) if d != dim else None
        for axis in axes:
            kinds[axis] = Shard(d, sizes)
    target = Layout.of(lead.mesh, tuple(kinds), tuple(map(tuple, order)), shape, dtype)
    inputs, start = [], 0
    for layout in layouts:
        stop = start + layout.shape[dim]
        held = [max(0, min(b, stop) - max(a, start)) for a, b in target.ranges[dim]]
        inputs.append(carried(target, layout.shape, range(lead.ndim), {dim: held}, layout.dtype))
        start = stop
    return case.strategy(inputs, [target])


def _cuts(kind: Placement, dim: int) -> bool:
    return isinstance(kind, Shard) and kind.dim == dim


def _sizes_of(layout: Layout, dim: int, axes: list[int]) -> tuple[int, ...] | None:
    """Return the sizes of ragged pieces, where the same axes cut the dim."""
    return None if layout.order[dim] != tuple(axes) or layout.is_plain else lengths(layout, dim)


def _placement(axis: int, layouts: list[Layout], lead: Layout, dim: int, tracked: bool) -> Placement:
    """Return how the result lies along an axis: joined dims stay cut, sums are summed later if all are."""
    kinds = [layout.placements[axis] for layout in layouts]
    leading = lead.placements[axis]
    if isinstance(leading, Shard):
        return Shard(leading.dim)
    first = kinds[0]
    if isinstance(first, Partial) and all(kind == first for kind in kinds):
        return first if first.reduce_op == "sum" or not tracked else Replicate()
    cut = [kind for kind in kinds if isinstance(kind, Shard)]
    return Shard(cut[0].dim) if cut else Replicate()


class PadPart(padding.Pad):
    """Padding with a constant, of which the first and last pieces get what is theirs."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        before, after = inputs[0], outputs[0]
        pads = []
        for (front, _), n, m, start, into in zip(
            params["pads"], before.shape, after.shape, before.offset, after.offset, strict=True
        ):
            lead = start + front - into if n and m else m
            pads.append((lead, m - n - lead))
        return {**params, "pads": tuple(pads)}


def pad_rule(case: Case) -> Strategy | Play | None:
    """Let the first and the last piece grow by constants; other paddings are slices that are joined."""
    layout, pads, mode = case.first, case.params["pads"], case.params.get("mode", "constant")
    cut = [dim for dim, pair in enumerate(pads) if layout.order[dim] and pair != (0, 0)]
    if not cut or layout.numel == 0:
        return None
    (result,), _ = case.results()
    if mode != "constant":
        return _joined_padding(layout, pads, mode, cut)
    if layout.partial:
        return None
    sizes: dict[int, Shape] = {}
    for dim in cut:
        held = list(lengths(layout, dim))
        first = next(i for i, n in enumerate(held) if n)
        last = next(i for i in reversed(range(len(held))) if held[i])
        held[first] += pads[dim][0]
        held[last] += pads[dim][1]
        sizes[dim] = tuple(held)
    target = carried(layout, result.shape, range(layout.ndim), sizes)
    return case.strategy([layout], [target], PadPart)


def _joined_padding(layout: Layout, pads: Any, mode: str, cut: list[int]) -> Play | None:
    """Take the padding of sharded dims from the ends of the tensor."""
    for dim in cut:
        n = layout.shape[dim] - (mode == "reflect")
        if mode not in ("edge", "reflect", "symmetric", "wrap") or max(pads[dim]) > n:
            return None
    rest = tuple([(0, 0) if dim in cut else pair for dim, pair in enumerate(pads)])

    def ends(x: Any, dim: int) -> Any:
        before, after = pads[dim]
        n = layout.shape[dim]
        skip = mode == "reflect"
        where = {
            "wrap": ((n - before, n), (0, after)),
            "edge": ((0, min(1, before)), (n - min(1, after), n)),
        }.get(mode, ((skip, before + skip), (n - after - skip, n - skip)))
        pieces = [
            index.Slice.apply(x, index=(*(slice(None),) * dim, slice(start, stop))) for start, stop in where
        ]
        if mode == "edge":
            pieces = [
                repetition.Tile.apply(
                    p.placed_as(p.layout.replicated()), repeats=(*(1,) * dim, n, *(1,) * (p.ndim - dim - 1))
                )
                for p, n in zip(pieces, (before, after), strict=True)
            ]
        elif mode != "wrap":
            pieces = [repetition.Flip.apply(piece, dims=(dim,)) for piece in pieces]
        return joining.Cat.apply(pieces[0], x, pieces[1], dim=dim)

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = args[0]
        for dim in cut:
            x = ends(x, dim)
        return padding.Pad.apply(x, pads=rest, mode=mode) if any(map(any, rest)) else x

    return play
