"""Padding at the ends of dims. `Pad` with zeros and `Unpad` are each other's adjoint, in every mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS, term

__all__ = ["PAD_MODES", "Pad", "Unpad"]

PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
"""Where the padding's values come from, in NumPy's words."""

Pairs = tuple[tuple[int, int], ...]


def _pad_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    padded = [d for d, pair in enumerate(params["pads"]) if pair != (0, 0)]
    fresh = dict(zip(padded, LETTERS[ndim:], strict=False))
    return f"{term(ndim, {d: LETTERS[d] for d in padded})}->{term(ndim, fresh)}"


class Pad(Function):
    """The input with (before, after) elements added to each dim, as `numpy.pad` does."""

    signature = _pad_signature
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, pads: Pairs, mode: str = "constant", value: complex = 0) -> Array:
        ctx.pads, ctx.mode = pads, mode
        if mode == "constant":
            return np.pad(a, pads, mode="constant", constant_values=value)
        return np.pad(a, pads, mode=mode)  # type: ignore[call-overload]  # its stubs want literals

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Unpad.apply(g, pads=ctx.pads, mode=ctx.mode),)


class Unpad(Function):
    """The input without its padding, each element of which is added to the one it was taken from."""

    signature = _pad_signature

    @staticmethod
    def forward(ctx: Context, g: Array, pads: Pairs, mode: str) -> Array:
        ctx.pads, ctx.mode = pads, mode
        if mode == "constant" or not any(map(any, pads)):
            return g[tuple([slice(b, n - a) for (b, a), n in zip(pads, g.shape, strict=True)])].copy()
        for dim, (before, after) in enumerate(pads):
            if before or after:
                g = _folded(g, dim, before, after, mode)
        return g

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Pad.apply(g, pads=ctx.pads, mode=ctx.mode),)


def _folded(g: Array, dim: int, before: int, after: int, mode: str) -> Array:
    """Add the padding of one dim to where it was taken from."""
    n = g.shape[dim] - before - after
    out = g[_slice(dim, before, before + n)].copy()
    source: list[int] = np.pad(range(n), (before, after), mode=mode).tolist()  # type: ignore[call-overload]
    for start, stop in ((0, before), (before + n, before + n + after)):
        for run in _runs(source, start, stop):
            part = g[_slice(dim, run.start, run.stop)]
            if run.step == 0:
                part = np.sum(part, dim, keepdims=True)
            elif run.step < 0:
                part = np.flip(part, dim)
            out[_slice(dim, run.source, run.source + part.shape[dim])] += part
    return out


def _slice(dim: int, start: int, stop: int) -> tuple[slice, ...]:
    return (slice(None),) * dim + (slice(start, stop),)


class _Run(NamedTuple):
    """Places from `start` to `stop` of the padding, taken from `source` on, in steps of 1, 0 or -1."""

    start: int
    stop: int
    step: int
    source: int


def _runs(sources: list[int], start: int, stop: int) -> Iterator[_Run]:
    """Cut padding into runs that one slice each describes; `sources` says where each place is from."""
    while start < stop:
        end = start + 1
        step = sources[end] - sources[start] if end < stop else 1
        if abs(step) <= 1:
            while end < stop and sources[end] - sources[end - 1] == step:
                end += 1
        else:
            step = 1
        yield _Run(start, end, step, min(sources[start], sources[end - 1]))
        start = end
