"""Fused windows for NumPy arrays, in up to three dims; the formulas are in ``convolution.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.jit import device, fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["add_windows_", "spatial_plan", "take_windows_"]


def spatial_plan(
    images: Shape,
    size: Shape,
    kernel: Shape,
    out: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> Array:
    """The numbers that a convolution's loops run over; dims of one element in front make them three."""
    lead = 3 - len(size)
    ones, zeros = (1,) * lead, (0,) * lead
    return np.array(
        [
            *(*images, *ones, *size, *ones, *kernel, *ones, *out),
            *(*ones, *stride, *zeros, *padding, *ones, *dilation),
        ],
        np.int64,
    )


def take_windows_(columns: Array, x: Array, stride: Shape, padding: Shape, dilation: Shape) -> None:
    ndim = x.ndim - 2
    kernel, out = columns.shape[1 : 1 + ndim], columns.shape[2 + ndim :]
    plan = spatial_plan(x.shape[:2], x.shape[2:], kernel, out, stride, padding, dilation)
    _take(columns.reshape(-1), contiguous(x).reshape(-1), plan)


def add_windows_(x: Array, columns: Array, stride: Shape, padding: Shape, dilation: Shape) -> None:
    ndim = x.ndim - 2
    kernel, out = columns.shape[1 : 1 + ndim], columns.shape[2 + ndim :]
    plan = spatial_plan(x.shape[:2], x.shape[2:], kernel, out, stride, padding, dilation)
    _add(x.reshape(-1), columns.reshape(-1), plan)


@device()
def _first(offset: int, stride: int, out: int) -> int:
    """The first output place whose input place, ``o * stride + offset``, is not in front of the input."""
    return min(out, max(0, (stride - 1 - offset) // stride))


@device()
def _last(offset: int, stride: int, out: int, size: int) -> int:
    """One more than the last output place whose input place is not behind the input."""
    return max(_first(offset, stride, out), min(out, (size - 1 - offset) // stride + 1))


@fused(lambda real: (write(real, 1), read(real, 1), read(int64, 1)))
def _take(columns: Array, x: Array, plan: Array) -> None:
    zero = columns.dtype.type(0)
    batch, channels, depth, height, width = plan[0], plan[1], plan[2], plan[3], plan[4]
    kd, kh, kw, od, oh, ow = plan[5], plan[6], plan[7], plan[8], plan[9], plan[10]
    sd, sh, sw, pd, ph, pw = plan[11], plan[12], plan[13], plan[14], plan[15], plan[16]
    dd, dh, dw = plan[17], plan[18], plan[19]
    for q in range(channels * kd * kh * kw):
        c, i, j, k = q // (kd * kh * kw), q // (kh * kw) % kd, q // kw % kh, q % kw
        left, top, front = k * dw - pw, j * dh - ph, i * dd - pd
        first, last = _first(left, sw, ow), _last(left, sw, ow, width)
        upper, lower = _first(top, sh, oh), _last(top, sh, oh, height)
        for n in range(batch):
            for a in range(od):
                z = a * sd + front
                plane = columns[((q * batch + n) * od + a) * oh * ow :][: oh * ow]
                if z < 0 or z >= depth or first == last or upper == lower:
                    for o in range(plane.size):
                        plane[o] = zero
                    continue
                for o in range(upper * ow):
                    plane[o] = zero
                for o in range(lower * ow, plane.size):
                    plane[o] = zero
                base = ((n * channels + c) * depth + z) * height * width
                if sh == 1 and sw == 1 and ow == width:
                    # The rows follow each other in both: one copy, whose ends then get their zeros.
                    begin, end = upper * ow + first, (lower - 1) * ow + last
                    shift = base + top * width + left
                    source, target = x[shift + begin : shift + end], plane[begin:end]
                    for o in range(target.size):
                        target[o] = source[o]
                    for b in range(upper, lower):
                        for o in range(b * ow, b * ow + first):
                            plane[o] = zero
                        for o in range(b * ow + last, (b + 1) * ow):
                            plane[o] = zero
                    continue
                for b in range(upper, lower):
                    row, start = plane[b * ow : (b + 1) * ow], base + (b * sh + top) * width + left
                    for o in range(first):
                        row[o] = zero
                    if sw == 1:
                        source, target = x[start + first : start + last], row[first:last]
                        for o in range(target.size):
                            target[o] = source[o]
                    else:
                        for o in range(first, last):
                            row[o] = x[start + o * sw]
                    for o in range(last, ow):
                        row[o] = zero


@fused(lambda real: (write(real, 1), write(real, 1), read(int64, 1)))
def _add(x: Array, columns: Array, plan: Array) -> None:
    zero = x.dtype.type(0)
    batch, channels, depth, height, width = plan[0], plan[1], plan[2], plan[3], plan[4]
    kd, kh, kw, od, oh, ow = plan[5], plan[6], plan[7], plan[8], plan[9], plan[10]
    sd, sh, sw, pd, ph, pw = plan[11], plan[12], plan[13], plan[14], plan[15], plan[16]
    dd, dh, dw = plan[17], plan[18], plan[19]
    for q in range(channels * kd * kh * kw):
        c, i, j, k = q // (kd * kh * kw), q // (kh * kw) % kd, q // kw % kh, q % kw
        left, top, front = k * dw - pw, j * dh - ph, i * dd - pd
        first, last = _first(left, sw, ow), _last(left, sw, ow, width)
        upper, lower = _first(top, sh, oh), _last(top, sh, oh, height)
        for n in range(batch):
            for a in range(od):
                z = a * sd + front
                plane = columns[((q * batch + n) * od + a) * oh * ow :][: oh * ow]
                if z < 0 or z >= depth or first == last or upper == lower:
                    continue
                base = ((n * channels + c) * depth + z) * height * width
                if sh == 1 and sw == 1 and ow == width:
                    for b in range(upper, lower):
                        for o in range(b * ow, b * ow + first):
                            plane[o] = zero
                        for o in range(b * ow + last, (b + 1) * ow):
                            plane[o] = zero
                    begin, end = upper * ow + first, (lower - 1) * ow + last
                    shift = base + top * width + left
                    source, target = plane[begin:end], x[shift + begin : shift + end]
                    for o in range(target.size):
                        target[o] += source[o]
                    continue
                for b in range(upper, lower):
                    row, start = plane[b * ow : (b + 1) * ow], base + (b * sh + top) * width + left
                    if sw == 1:
                        source, target = row[first:last], x[start + first : start + last]
                        for o in range(target.size):
                            target[o] += source[o]
                    else:
                        for o in range(first, last):
                            x[start + o * sw] += row[o]
