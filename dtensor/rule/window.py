"""Convolution and pooling of images that are cut along dims of places: pieces with halos, each for itself.

Each rank computes its piece of the result, for which it is sent the places of others that its windows see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import LayoutError
from shardwise.backend.shape import ShapeArray
from shardwise.dtensor.layout import Layout, chunk_ranges
from shardwise.dtensor.placement import Placement, Replicate, Shard
from shardwise.dtensor.rule.case import Case, Perform, Play, carried
from shardwise.dtensor.rule.halo import Ranges, halo_strategy
from shardwise.dtensor.strategy import finished
from shardwise.tensor.function import Context, Gradients
from shardwise.tensor.ops import convolution, pooling
from shardwise.tensor.signature import Part

__all__ = ["convolution_rule", "pooling_rule"]


def _refuse(a: Any, what: str) -> None:
    """Refuse gradients of gradients, for which formulas run on wholes: pieces with halos are none."""
    if isinstance(a, ShapeArray):
        raise LayoutError(
            f"gradients of gradients of {what} along sharded dims of places are not known; redistribute its "
            "input to Shard(0) or Replicate() first"
        )


class ConvolutionPart(convolution.Convolution):
    """The convolution of a piece that has all that its windows see; dims in `cut` need no padding."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        cut = params["cut"]
        padding = [0 if d in cut else n for d, n in enumerate(params["padding"])]
        return {**params, "size": outputs[0].shape[2:], "padding": tuple(padding)}

    @staticmethod
    def forward(
        ctx: Context, x: Array, weight: Array, bias: Array | None, size: Shape, stride: Shape, padding: Shape,
        dilation: Shape, groups: int, cut: Shape = (),
    ) -> Array:  # fmt: skip
        _refuse(x, "a convolution")
        ctx.nothing = 0 in size
        if ctx.nothing:
            ctx.shapes = [x.shape, weight.shape]
            return np.zeros_like(x, shape=(x.shape[0], weight.shape[0], *size))
        whole = convolution.Convolution
        return whole.forward(ctx, x, weight, bias, size, stride, padding, dilation, groups)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if not ctx.nothing:
            return convolution.Convolution.backward(ctx, g)
        dx, dweight = [np.zeros_like(g, shape=shape) for shape in ctx.shapes]
        return dx, dweight, np.zeros_like(g, shape=(g.shape[1],)) if ctx.need[2] else None


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
    bias = case.layouts[2]
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
        given = (x.layout, weight, bias)
        strategy = finished(ConvolutionPart, (x.layout, kernel, shift), given, (target,), False)
        return perform(strategy, (x, *args[1:]), {**params, "cut": tuple([d - 2 for d in cut])})

    return play


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


class AveragePart(pooling.AveragePool):
    """Means of the windows of a piece."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        windows = _windows_here(params, outputs[0])[0]
        counts = [
            numbers[at : at + n]
            for numbers, at, n in zip(
                params["counts"], outputs[0].offset[2:], outputs[0].shape[2:], strict=True
            )
        ]
        return {"windows": windows, "counts": tuple(counts)}

    @staticmethod
    def forward(ctx: Context, x: Array, windows: Any, counts: Any, starts: Any = None) -> Array:
        _refuse(x, "a pooling")
        ctx.shape = x.shape if not all(windows) else None
        if ctx.shape is not None:
            return np.zeros_like(x, shape=(*x.shape[:2], *map(len, windows)))
        return pooling.AveragePool.forward(ctx, x, windows, counts)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if ctx.shape is not None:
            return (np.zeros_like(g, shape=ctx.shape),)
        return pooling.AveragePool.backward(ctx, g)


class MaxPart(pooling.MaxPool):
    """Maxima of the windows of a piece, with their places counted in the whole."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        windows, starts = _windows_here(params, outputs[0])
        return {"windows": windows, "starts": starts, "whole": params["whole"]}

    @staticmethod
    def forward(
        ctx: Context, x: Array, windows: Any, starts: Any = None, whole: Shape = ()
    ) -> tuple[Array, Array]:
        _refuse(x, "a pooling")
        ctx.shape = x.shape
        ctx.places = None
        if not all(windows):
            nothing = (*x.shape[:2], *map(len, windows))
            return np.zeros_like(x, shape=nothing), np.zeros_like(x, dtype=np.int64, shape=nothing)
        out, places = pooling.MaxPool.forward(Context((False,)), x, windows)
        ctx.places = places
        along = np.unravel_index(places, x.shape[2:])
        counted = np.zeros_like(places)
        for at, start, n in zip(along, starts, whole, strict=True):
            counted = counted * n + (at + start)
        return out, counted

    @staticmethod
    def backward(ctx: Context, g: Array, _: Array) -> Gradients:
        if ctx.places is None:
            return (np.zeros_like(g, shape=ctx.shape),)
        return (pooling.MaxUnpool.apply(g, ctx.places, size=ctx.shape[2:]),)


def _windows_here(params: dict[str, Any], result: Part) -> tuple[Any, tuple[int, ...]]:
    """Return the windows of a piece, counted from its first place with halo, and where that is."""
    windows, starts = [], []
    for d, (ranges, at, n) in enumerate(
        zip(params["windows"], result.offset[2:], result.shape[2:], strict=True)
    ):
        mine = ranges[at : at + n]
        start = min((each[0] for each in mine if len(each)), default=0) if d in params["starts"] else 0
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
    part = AveragePart if case.function is pooling.AveragePool else MaxPart
    more = {"starts": tuple([d - 2 for d in cut])}
    more |= {} if part is AveragePart else {"whole": layout.shape[2:]}

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = _with_halos(perform, args[0], source, halos)
        strategy = finished(part, (x.layout,), (x.layout,), targets, len(targets) > 1)
        return perform(strategy, (x,), {**params, **more})

    return play


def _seen(windows: Sequence[range]) -> tuple[int, int]:
    """Return the first place that some windows see, and the place behind the last."""
    seen = [each for each in windows if len(each)]
    if not seen:
        return (0, 0)
    return min(each[0] for each in seen), max(each[-1] for each in seen) + 1
