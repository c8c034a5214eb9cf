"""What moves along sharded dims: turned around, rolled, repeated, padded.

A dim turned around lies as it did on a mesh whose ranks stand the other way; from there its pieces are sent.
The others are made of slices that are joined, so that only what changes its rank is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Shard
from shardwise.dtensor.rule.case import Case, Perform, Play, carried, lengths
from shardwise.dtensor.strategy import Strategy
from shardwise.mesh import DeviceMesh
from shardwise.tensor.ops import index, joining, repetition, view

__all__ = ["flip_rule", "repeat_rule", "roll_rule", "tile_rule"]


def flip_rule(case: Case) -> Play | None:
    """Turn each part around where it is, and send it to where it belongs then."""
    layout = case.first
    dims = [dim % layout.ndim for dim in case.params["dims"]]
    cut = [dim for dim in dims if layout.order[dim]]
    if not cut or layout.numel == 0:
        return None
    case.results()
    source = case.moving(layout)
    target = Layout.of(source.mesh, source.placements, source.order, source.shape, source.dtype)
    strategy = case.strategy([source], [_turned(source, cut)])

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return perform(strategy, args, params).placed_as(target)

    return play


def _turned(layout: Layout, dims: Sequence[int]) -> Layout:
    """Return the layout of what results if every rank turns its part around and keeps it."""
    axes = [axis for dim in dims for axis in layout.order[dim]]
    mesh = layout.mesh
    ranks = np.flip(mesh.mesh, tuple(axes))
    other = DeviceMesh(mesh.device_type, ranks, mesh.mesh_dim_names)
    kinds = list(layout.placements)
    for dim in dims:
        sizes = lengths(layout, dim)[::-1]
        for axis in layout.order[dim]:
            kinds[axis] = Shard(dim, sizes)
    return Layout.of(other, tuple(kinds), layout.order, layout.shape, layout.dtype)


def roll_rule(case: Case) -> Play | None:
    """Join what leaves at the end and what stays, the other way round."""
    layout = case.first
    if layout.numel == 0:
        return None
    shifts: dict[int, int] = {}
    for shift, dim in zip(case.params["shifts"], case.params["dims"], strict=True):
        shifts[dim % layout.ndim] = shifts.get(dim % layout.ndim, 0) + shift
    cut = {dim: shift % layout.shape[dim] for dim, shift in shifts.items() if layout.order[dim]}
    if not cut:
        return None
    case.results()
    inner = {dim: shift for dim, shift in shifts.items() if dim not in cut}

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = args[0]
        if inner:
            x = repetition.Roll.apply(x, shifts=tuple(inner.values()), dims=tuple(inner))
        for dim, shift in cut.items():
            if shift:
                at = layout.shape[dim] - shift
                pieces = [_piece(x, dim, at, at + shift), _piece(x, dim, 0, at)]
                x = joining.Cat.apply(*pieces, dim=dim)
        return x if x is not args[0] else x.clone()

    return play


def _piece(x: Any, dim: int, start: int, stop: int) -> Any:
    return index.Slice.apply(x, index=(*(slice(None),) * dim, slice(start, stop)))


def tile_rule(case: Case) -> Play | None:
    """Join copies along sharded dims; the other dims are repeated in each part."""
    layout, repeats = case.first, case.params["repeats"]
    extra = len(repeats) - layout.ndim
    if extra < 0:
        return None
    cut = {dim: n for dim, n in enumerate(repeats[extra:]) if n != 1 and layout.order[dim]}
    if not cut or 0 in repeats:
        return None
    case.results()
    inner = (*repeats[:extra], *[1 if dim in cut else n for dim, n in enumerate(repeats[extra:])])

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = args[0]
        for dim, times in cut.items():
            x = joining.Cat.apply(*[x] * times, dim=dim)
        if extra:
            x = view.Reshape.apply(x, shape=(*(1,) * extra, *x.shape))
        return repetition.Tile.apply(x, repeats=inner)

    return play


def repeat_rule(case: Case) -> Strategy | None:
    """Each piece is repeated where it is."""
    layout, times = case.first, case.params["repeats"]
    dim = case.params["dim"] % max(layout.ndim, 1)
    if not layout.ndim or not layout.order[dim] or not isinstance(times, int):
        return None
    (result,), _ = case.results()
    source = case.moving(layout)
    sizes = {dim: [n * times for n in lengths(layout, dim)]}
    return case.strategy([source], [carried(source, result.shape, range(layout.ndim), sizes)])
