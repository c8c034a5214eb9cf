"""Fused depthwise convolutions for NumPy arrays, in up to three dims; the formulas are in ``depthwise.py``.

A plane of the input is first laid out with its padding, and sorted by the remainders of its places modulo
the stride. Then what a kernel place sees at consecutive outputs lies one behind the other, whatever stride
and dilation are, and every loop is long and plain. Outputs are laid out alike: their rows are as long as
those of the sorted input, and what stands behind their ends counts for nothing.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.jit import device, fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.window.convolution_cpu import spatial_plan

__all__ = ["depthwise_forward", "depthwise_input", "depthwise_weight"]

# Outputs that stay in the first cache while every kernel place adds to them.
_PIECE = 2048


def depthwise_forward(
    x: Array, weight: Array, size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    batch, channels = x.shape[:2]
    plan = spatial_plan((batch, channels), x.shape[2:], weight.shape[2:], size, stride, padding, dilation)
    out = np.empty((batch, weight.shape[0], *size), x.dtype)
    if out.size:
        _forward(contiguous(x).reshape(-1), contiguous(weight).reshape(-1), out.reshape(-1), plan)
    return out


def depthwise_input(
    g: Array, weight: Array, channels: int, size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    plan = spatial_plan(
        (g.shape[0], channels), size, weight.shape[2:], g.shape[2:], stride, padding, dilation
    )
    dx = np.zeros((g.shape[0], channels, *size), g.dtype)
    if g.size:
        _input(contiguous(g).reshape(-1), contiguous(weight).reshape(-1), dx.reshape(-1), plan)
    return dx


def depthwise_weight(
    x: Array, g: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    batch, channels = x.shape[:2]
    plan = spatial_plan((batch, channels), x.shape[2:], kernel, g.shape[2:], stride, padding, dilation)
    dweight = np.zeros((g.shape[1], 1, *kernel), g.dtype)
    if g.size:
        _weight(contiguous(x).reshape(-1), contiguous(g).reshape(-1), dweight.reshape(-1), plan)
    return dweight


@device()
def _sort(plan: Array, starts: Array) -> tuple[int, int, int, int]:
    """Write where each kernel place finds output 0 in a sorted plane.

    Returns its height and width, how many remainders there are, and the length of a plane for each.
    """
    kd, kh, kw, od, oh, ow = plan[5], plan[6], plan[7], plan[8], plan[9], plan[10]
    sd, sh, sw, dd, dh, dw = plan[11], plan[12], plan[13], plan[17], plan[18], plan[19]
    tall, wide = oh + (kh - 1) * dh // sh, ow + (kw - 1) * dw // sw
    volume = (od + (kd - 1) * dd // sd) * tall * wide
    across, down = min(sw, (kw - 1) * dw + 1), min(sh, (kh - 1) * dh + 1)
    for t in range(starts.size):
        z, y, x = t // (kh * kw) * dd, t // kw % kh * dh, t % kw * dw
        part = (z % sd * down + y % sh) * across + x % sw
        starts[t] = part * volume + (z // sd * tall + y // sh) * wide + x // sw
    return tall, wide, min(sd, (kd - 1) * dd + 1) * down * across, volume


@device()
def _row(at: int, tall: int, wide: int, volume: int, plan: Array) -> tuple[int, int, int, int]:
    """Where row `at` of a sorted input finds its elements.

    Returns the place of its first element in the channel, -1 if all of the row is padding; the first
    element, and one more than the last, that are not; and the step.
    """
    depth, height, width = plan[2], plan[3], plan[4]
    kh, kw, sd, sh, sw = plan[6], plan[7], plan[11], plan[12], plan[13]
    pd, ph, pw, dh, dw = plan[14], plan[15], plan[16], plan[18], plan[19]
    across, down = min(sw, (kw - 1) * dw + 1), min(sh, (kh - 1) * dh + 1)
    part, inside = at * wide // volume, at % (volume // wide)
    z = inside // tall * sd + part // (across * down) - pd
    y = inside % tall * sh + part // across % down - ph
    left = part % across - pw
    first = min(wide, max(0, (sw - 1 - left) // sw))
    last = max(first, min(wide, (width - 1 - left) // sw + 1))
    if z < 0 or z >= depth or y < 0 or y >= height:
        return -1, 0, 0, sw
    return (z * height + y) * width + left + first * sw, first, last, sw


@device()
def _lay_out(plane: Array, x: Array, tall: int, wide: int, volume: int, plan: Array) -> None:
    """Copy one channel of the input into `plane`, sorted; padding is left as it is."""
    for at in range(plane.size // wide):
        start, first, last, step = _row(at, tall, wide, volume, plan)
        if start < 0:
            continue
        row = plane[at * wide + first : at * wide + last]
        if step == 1:
            source = x[start : start + row.size]
            for o in range(row.size):
                row[o] = source[o]
        else:
            for o in range(row.size):
                row[o] = x[start + o * step]


@device()
def _add_back(x: Array, plane: Array, tall: int, wide: int, volume: int, plan: Array) -> None:
    """Add what lies in `plane` to one channel of the input."""
    for at in range(plane.size // wide):
        start, first, last, step = _row(at, tall, wide, volume, plan)
        if start < 0:
            continue
        row = plane[at * wide + first : at * wide + last]
        if step == 1:
            target = x[start : start + row.size]
            for o in range(row.size):
                target[o] += row[o]
        else:
            for o in range(row.size):
                x[start + o * step] += row[o]


@device()
def _spread(plane: Array, g: Array, tall: int, wide: int, plan: Array) -> None:
    """Copy one channel of the output's gradient into `plane`, with rows as long as those of the input."""
    oh, ow = plan[9], plan[10]
    for b in range(g.size // ow):
        row, start = g[b * ow : (b + 1) * ow], (b // oh * tall + b % oh) * wide
        target = plane[start : start + ow]
        for o in range(ow):
            target[o] = row[o]


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1), read(int64, 1)))
def _forward(x: Array, weight: Array, out: Array, plan: Array) -> None:
    zero = x.dtype.type(0)
    batch, channels, size = plan[0], plan[1], plan[2] * plan[3] * plan[4]
    taps, od, oh, ow = plan[5] * plan[6] * plan[7], plan[8], plan[9], plan[10]
    many = weight.size // max(channels * taps, 1)
    starts = np.empty(taps, np.int64)
    tall, wide, parts, volume = _sort(plan, starts)
    plane, sums = np.zeros(parts * volume, x.dtype), np.empty(volume, x.dtype)
    reach = ((od - 1) * tall + oh - 1) * wide + ow
    for n in range(batch * channels):
        _lay_out(plane, x[n * size : (n + 1) * size], tall, wide, volume, plan)
        for q in range(n % channels * many, n % channels * many + many):
            for piece in range(0, reach, _PIECE):
                part = sums[piece : min(reach, piece + _PIECE)]
                for o in range(part.size):
                    part[o] = zero
                for t in range(taps):
                    factor, start = weight[q * taps + t], starts[t] + piece
                    seen = plane[start : start + part.size]
                    for o in range(part.size):
                        part[o] += factor * seen[o]
            begin = (n // channels * channels * many + q) * od * oh * ow
            for b in range(od * oh):
                row = out[begin + b * ow : begin + (b + 1) * ow]
                kept = sums[(b // oh * tall + b % oh) * wide :]
                for o in range(ow):
                    row[o] = kept[o]


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1), read(int64, 1)))
def _input(g: Array, weight: Array, dx: Array, plan: Array) -> None:
    zero = g.dtype.type(0)
    batch, channels, size = plan[0], plan[1], plan[2] * plan[3] * plan[4]
    taps, od, oh, ow = plan[5] * plan[6] * plan[7], plan[8], plan[9], plan[10]
    many, places = weight.size // max(channels * taps, 1), od * oh * ow
    starts = np.empty(taps, np.int64)
    tall, wide, parts, volume = _sort(plan, starts)
    plane, spread = np.empty(parts * volume, g.dtype), np.zeros(volume, g.dtype)
    reach = ((od - 1) * tall + oh - 1) * wide + ow
    for n in range(batch * channels):
        for o in range(plane.size):
            plane[o] = zero
        for q in range(n % channels * many, n % channels * many + many):
            begin = (n // channels * channels * many + q) * places
            _spread(spread, g[begin : begin + places], tall, wide, plan)
            for piece in range(0, reach, _PIECE):
                part = spread[piece : min(reach, piece + _PIECE)]
                for t in range(taps):
                    factor, start = weight[q * taps + t], starts[t] + piece
                    target = plane[start : start + part.size]
                    for o in range(part.size):
                        target[o] += factor * part[o]
        _add_back(dx[n * size : (n + 1) * size], plane, tall, wide, volume, plan)


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1), read(int64, 1)))
def _weight(x: Array, g: Array, dweight: Array, plan: Array) -> None:
    real = x.dtype.type
    batch, channels, size = plan[0], plan[1], plan[2] * plan[3] * plan[4]
    taps, od, oh, ow = plan[5] * plan[6] * plan[7], plan[8], plan[9], plan[10]
    many, places = dweight.size // max(channels * taps, 1), od * oh * ow
    starts = np.empty(taps, np.int64)
    tall, wide, parts, volume = _sort(plan, starts)
    plane, spread = np.zeros(parts * volume, x.dtype), np.zeros(volume, g.dtype)
    reach = ((od - 1) * tall + oh - 1) * wide + ow
    sums = np.zeros(dweight.size, np.float64)  # over all images, so in double precision
    for n in range(batch * channels):
        _lay_out(plane, x[n * size : (n + 1) * size], tall, wide, volume, plan)
        for q in range(n % channels * many, n % channels * many + many):
            begin = (n // channels * channels * many + q) * places
            _spread(spread, g[begin : begin + places], tall, wide, plan)
            for piece in range(0, reach, _PIECE):
                part = spread[piece : min(reach, piece + _PIECE)]
                for t in range(taps):
                    start, total = starts[t] + piece, real(0)
                    seen = plane[start : start + part.size]
                    for o in range(part.size):
                        total += part[o] * seen[o]
                    sums[q * taps + t] += total
    for t in range(dweight.size):
        dweight[t] = real(sums[t])
