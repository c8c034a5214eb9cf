"""Cases of kernels that know places: channels, indices, windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from device_cases.case import RNG, Case, normal
from shardwise.backend.kernels.channel.batch_norm import batch_norm_backward, batch_norm_forward
from shardwise.backend.kernels.channel.group_norm import group_norm_backward, group_norm_forward
from shardwise.backend.kernels.place.embedding import embedding_backward
from shardwise.backend.kernels.place.gather import gather_along, scatter_along
from shardwise.backend.kernels.place.scatter import scatter_rows
from shardwise.backend.kernels.window.convolution import add_windows_, take_windows_
from shardwise.backend.kernels.window.depthwise import depthwise_forward, depthwise_input, depthwise_weight
from shardwise.backend.kernels.window.pooling import (
    average_backward,
    average_forward,
    maximum_backward,
    maximum_forward,
)
from shardwise.backend.kernels.window.resampling import resample_backward, resample_forward

__all__ = ["planes", "scatters", "windows"]

_WINDOWS: dict[str, tuple[tuple[int, ...], ...]] = {
    # size, kernel, stride, padding, dilation
    "line": ((9,), (3,), (2,), (1,), (1,)),
    "image": ((7, 6), (3, 2), (1, 2), (1, 0), (1, 2)),
    "volume": ((4, 5, 3), (2, 2, 2), (2, 1, 1), (0, 1, 0), (1, 1, 2)),
    "far": ((5, 5), (3, 3), (2, 3), (4, 3), (2, 1)),  # some windows lie outside
}


def planes() -> Iterator[tuple[str, Case]]:
    for shape, groups in (((5, 4), 2), ((3, 4, 7), 4), ((2, 6, 8, 8), 3), ((2, 3, 1100), 1), ((1, 2, 3), 1)):
        name, c, n = "x".join(map(str, shape)), shape[1], int(np.prod(shape))
        x, g = normal(*shape) + 1.0, normal(*shape)
        for weight, bias in ((None, None), (normal(c), normal(c))):
            batch = batch_norm_forward.plain(x, weight, bias, 1e-5)[1:]
            group = group_norm_forward.plain(x, weight, bias, groups, 1e-5)[1:]
            yield name, Case(batch_norm_forward, (x, weight, bias, 1e-5), n)
            yield name, Case(group_norm_forward, (x, weight, bias, groups, 1e-5), n)
            for statistics in (batch, (None, None)):
                yield name, Case(batch_norm_backward, (g, x, weight, *statistics, 1e-5), n, 10.0)
            for statistics in (group, (None, None)):
                yield name, Case(group_norm_backward, (g, x, weight, *statistics, groups, 1e-5), n, 10.0)
    x = np.moveaxis(normal(2, 5, 4), 1, 2)
    yield "transposed", Case(batch_norm_forward, (x, None, None, 1e-5), 40)
    yield "transposed", Case(group_norm_backward, (np.sin(3.0 * x), x, None, None, None, 2, 1e-5), 40)


def scatters() -> Iterator[tuple[str, Case]]:
    for outer, n, inner, size in (
        (1, 6, 1, 4),
        (2, 5, 3, 4),
        (3, 2, 16, 7),
        (1, 300, 8, 20),
        (2, 0, 3, 4),
        (1, 3, 0, 2),
    ):
        name = f"{outer}x{n}x{inner} of {size}"
        x, g = normal(outer, size, inner), normal(outer, n, inner)
        each = RNG.integers(0, size, (outer, n, inner))
        rows = RNG.integers(0, size, n).astype(np.int32)
        yield name, Case(gather_along, (x, each))
        yield name, Case(gather_along, (x, each - size, True))
        yield name, Case(scatter_along, (g, each, size), n)
        yield name, Case(scatter_along, (g, each - size, size), n)
        if n:
            yield name, Case(scatter_rows, (g, rows, size), n)
        if outer == 1:
            yield name, Case(embedding_backward, (g[0], rows, size), n)
        if n:
            taps = RNG.integers(0, size, (2, n))
            yield name, Case(resample_forward, (x, taps, normal(2, n)), 2)
            yield name, Case(resample_backward, (g, taps, normal(2, n), size), 2 * n)
    yield "tokens", Case(embedding_backward, (normal(2, 3, 4), RNG.integers(0, 5, (2, 3)), 5), 6)
    yield "transposed", Case(embedding_backward, (normal(4, 6).T, RNG.integers(0, 5, 6), 5), 6)


def _ranges(size: int, kernel: int, stride: int, padding: int, dilation: int) -> tuple[range, ...]:
    """What a pooling window sees at each place, cut at the edges."""
    out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    seen = []
    for o in range(out):
        inside = [a for k in range(kernel) if 0 <= (a := o * stride + k * dilation - padding) < size]
        seen.append(range(inside[0], inside[-1] + 1, dilation) if inside else range(0))
    return tuple(seen)


def windows() -> Iterator[tuple[str, Case]]:
    for name, (size, kernel, stride, padding, dilation) in _WINDOWS.items():
        places = zip(size, kernel, stride, padding, dilation, strict=True)
        windows = tuple(_ranges(*numbers) for numbers in places)
        out = tuple(map(len, windows))
        spacing = (stride, padding, dilation)
        x, g = normal(2, 3, *size), normal(2, 3, *out)
        columns = normal(3, *kernel, 2, *out)
        yield name, Case(take_windows_, (np.full_like(columns, np.nan), x, *spacing))
        yield name, Case(add_windows_, (x, columns, *spacing), 30)
        for many in (1, 2):
            weight, gradient = normal(3 * many, 1, *kernel), normal(2, 3 * many, *out)
            yield name, Case(depthwise_forward, (x, weight, out, *spacing), 30)
            yield name, Case(depthwise_input, (gradient, weight, 3, size, *spacing), 60)
            yield name, Case(depthwise_weight, (x, gradient, kernel, *spacing), 100)
        counts = tuple(tuple(max(len(seen), 1) for seen in dim) for dim in windows)
        yield name, Case(average_forward, (x, windows, counts), 30)
        yield name, Case(average_backward, (g, windows, counts, size), 30)
        if all(len(seen) for dim in windows for seen in dim):
            ties = np.round(x)
            ties[0, 0].flat[::3] = np.nan
            yield name, Case(maximum_forward, (x, windows))
            yield name, Case(maximum_forward, (ties, windows))
            yield name, Case(maximum_backward, (g, maximum_forward.plain(x, windows)[1], size), 30)
    adaptive = ((range(3), range(2, 5), range(3, 7)),)  # of different lengths, overlapping
    yield "adaptive", Case(average_forward, (normal(2, 2, 7), adaptive, ((3, 3, 4),)), 4)
    yield "adaptive", Case(average_backward, (normal(2, 2, 3), adaptive, ((3, 3, 4),), (7,)), 4)
    yield "no batch", Case(average_forward, (normal(0, 2, 7), adaptive, ((3, 3, 4),)), 4)
