"""Convolution and pooling of images that are cut along dims of places: pieces with halos, each for itself.

Each rank computes its piece of the result, for which it is sent the places of others that its windows see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Shape
from shardwise.dtensor.layout import Layout, chunk_ranges
from shardwise.dtensor.placement import Placement, Replicate, Shard
from shardwise.dtensor.rule.block import here_of
from shardwise.dtensor.rule.case import Case, Perform, Play, carried
from shardwise.dtensor.rule.halo import Ranges, halo_strategy
from shardwise.dtensor.rule.region import region
from shardwise.tensor.ops import convolution, pooling
from shardwise.tensor.signature import Part
from shardwise.tensor.tensor import Tensor

__all__ = ["convolution_rule", "pooling_rule"]


def convolution_rule(case: Case) -> Play | None:
    """Let pieces of places convolve with halos; batches and channels stay cut as they are where they can."""
    layout, weight = case.first, case.layouts[1]
    cut = [d for d in range(2, layout.ndim) if layout.order[d]]
    if not cut or weight is None or layout.numel == 0:
        return None
    (result,), _ = case.results()
    if 0 in result.shape:
        return None
    params = case.params
    pieces: dict[int, Ranges] = {}
    halos: dict[int, Ranges] = {}
    for d in cut:
        widths = [layout.mesh.shape[axis] for axis in layout.order[d]]
        pieces[d] = chunk_ranges(result.shape[d], widths)
        stride, padding, dilation = (params[name][d - 2] for name in ("stride", "padding", "dilation"))
        reach = (weight.shape[d] - 1) * dilation + 1
        halos[d] = tuple(
            [
                (a * stride - padding, (b - 1) * stride - padding + reach) if b > a else (0, 0)
                for a, b in pieces[d]
            ]
        )
    source, kernel, shift = _beside(layout, weight, case.layouts[2], params["groups"])
    origin: list[int | None] = [0, None, *range(2, layout.ndim)]
    target = carried(source, result.shape, origin, {d: _lengths(pieces[d]) for d in cut}, result.dtype)
    channels = kernel.order[0]
    if channels:
        kinds = list(target.placements)
        for axis in channels:
            kinds[axis] = Shard(1)
        order = (target.order[0], channels, *target.order[2:])
        target = Layout.of(target.mesh, tuple(kinds), order, target.shape, target.dtype)

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = _with_halos(perform, args[0], source, halos)
        inputs = [x, args[1].placed_as(kernel)]
        if shift is not None:
            inputs.append(args[2].placed_as(shift))
        padding = [0 if d + 2 in cut else n for d, n in enumerate(params["padding"])]

        def convolved(x: Any, weight: Any, bias: Any = None) -> Any:
            size = target.local_shape(here_of(target))[2:]
            if 0 in size:
                return _nothing(x, (x.shape[0], weight.shape[0], *size), target.dtype)
            given = {**params, "size": size, "padding": tuple(padding)}
            return convolution.Convolution.apply(x, weight, bias, **given)

        return region("Convolution", convolved, inputs, [target], "each", (2,))

    return play


def _nothing(like: Any, shape: Shape, dtype: Any) -> Tensor:
    return Tensor(np.zeros_like(like.data, shape=shape, dtype=dtype))


def _beside(
    layout: Layout, weight: Layout, bias: Layout | None, groups: int
) -> tuple[Layout, Layout, Layout | None]:
    """Return how images, weight and bias lie: along each axis images are cut, or channels that come out."""
    images: list[Placement] = [Replicate()] * layout.mesh.ndim
    channels: list[int] = []
    for axis, placement in enumerate(layout.placements):
        if isinstance(placement, Shard) and placement.dim != 1:
            images[axis] = placement
        elif groups == 1 and isinstance(placement, Replicate) and weight.placements[axis].is_shard(0):
            channels.append(axis)
    order = tuple([axes if d != 1 else () for d, axes in enumerate(layout.order)])
    source = Layout.of(layout.mesh, tuple(images), order, layout.shape, layout.dtype)
    kept = tuple([axis for axis in weight.order[0] if axis in channels])
    kinds = tuple([Shard(0) if axis in kept else Replicate() for axis in range(layout.mesh.ndim)])

    def lies(of: Layout) -> Layout:
        return Layout.of(of.mesh, kinds, (kept, *[()] * (of.ndim - 1)), of.shape, of.dtype)

    return source, lies(weight), None if bias is None else lies(bias)


def _lengths(ranges: Ranges) -> list[int]:
    return [stop - start for start, stop in ranges]


def _with_halos(perform: Perform, x: Any, source: Layout, halos: dict[int, Ranges]) -> Any:
    """Return pieces with what they see of their neighbours, one dim after the other: so corners come too."""
    lies = source
    for dim, wanted in halos.items():
        strategy = halo_strategy(lies, x.layout, dim, wanted)
        x = perform(strategy, (x,), {"dim": dim, "lies": lies, "wanted": wanted})
        lies = x.layout
    return x


# ---- pooling


def _averaged(params: dict[str, Any], cut: Sequence[int], target: Layout) -> Callable[[Any], Any]:
    """Return what gives the means of the windows of a piece."""

    def averaged(x: Any) -> Any:
        part = _part_of(target)
        windows, _ = _windows_here(params["windows"], cut, part)
        if not all(windows):
            return _nothing(x, (*x.shape[:2], *map(len, windows)), target.dtype)
        counts = tuple(
            [
                numbers[at : at + n]
                for numbers, at, n in zip(params["counts"], part.offset[2:], part.shape[2:], strict=True)
            ]
        )
        return pooling.AveragePool.apply(x, windows=windows, counts=counts)

    return averaged


def _largest(
    params: dict[str, Any], cut: Sequence[int], target: Layout, whole: Shape
) -> Callable[[Any], Any]:
    """Return what gives the maxima of the windows of a piece, with their places counted in the whole."""

    def largest(x: Any) -> Any:
        windows, starts = _windows_here(params["windows"], cut, _part_of(target))
        if not all(windows):
            shape = (*x.shape[:2], *map(len, windows))
            return _nothing(x, shape, target.dtype), _nothing(x, shape, np.int64)
        found: Any = pooling.MaxPool.apply(x, windows=windows)
        out, places = found
        rest, counted, step = places.data, np.zeros_like(places.data), 1
        for size, start, n in reversed([*zip(x.shape[2:], starts, whole, strict=True)]):
            counted, rest, step = counted + (rest % size + start) * step, rest // size, step * n
        return out, Tensor(counted)

    return largest


def _part_of(layout: Layout) -> Part:
    return Part(*layout.box(here_of(layout)), layout.shape)


def _windows_here(all_of_it: Any, cut: Sequence[int], result: Part) -> tuple[Any, tuple[int, ...]]:
    """Return the windows of a piece, counted from its first place with halo, and where that is."""
    windows, starts = [], []
    for d, (ranges, at, n) in enumerate(zip(all_of_it, result.offset[2:], result.shape[2:], strict=True)):
        mine = ranges[at : at + n]
        start = min((each[0] for each in mine if len(each)), default=0) if d + 2 in cut else 0
        windows.append(tuple([range(r.start - start, r.stop - start, r.step) for r in mine]))
        starts.append(start)
    return tuple(windows), tuple(starts)


def pooling_rule(case: Case) -> Play | None:
    """Let pieces of places be pooled with halos."""
    layout = case.first
    cut = [d for d in range(2, layout.ndim) if layout.order[d]]
    if not cut or layout.numel == 0:
        return None
    results, _ = case.results()
    shape = results[0].shape
    if 0 in shape:
        return None
    pieces: dict[int, Ranges] = {}
    halos: dict[int, Ranges] = {}
    for d in cut:
        widths = [layout.mesh.shape[axis] for axis in layout.order[d]]
        pieces[d] = chunk_ranges(shape[d], widths)
        halos[d] = tuple([_seen(case.params["windows"][d - 2][a:b]) for a, b in pieces[d]])
    source = layout.reduced()
    sizes = {d: _lengths(pieces[d]) for d in cut}
    targets = tuple([carried(source, each.shape, range(layout.ndim), sizes, each.dtype) for each in results])
    averages = case.function is pooling.AveragePool

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = _with_halos(perform, args[0], source, halos)
        if averages:
            return region("AveragePool", _averaged(params, cut, targets[0]), [x], targets, "all")
        return region("MaxPool", _largest(params, cut, targets[0], layout.shape[2:]), [x], targets, "all")

    return play


def _seen(windows: Sequence[range]) -> tuple[int, int]:
    """Return the first place that some windows see, and the place behind the last."""
    seen = [each for each in windows if len(each)]
    if not seen:
        return (0, 0)
    return min(each[0] for each in seen), max(each[-1] for each in seen) + 1
