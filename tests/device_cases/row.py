"""Cases of kernels over rows: softmax, norms, sums, running sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from device_cases.case import Case, normal
from shardwise.backend.kernels.reduction.reduction import column_sum, sum_of_squares
from shardwise.backend.kernels.reduction.scan import (
    running_largest,
    running_product,
    running_smallest,
    running_sum,
)
from shardwise.backend.kernels.row.norm import layer_norm_backward, layer_norm_forward
from shardwise.backend.kernels.row.rms_norm import rms_norm_backward, rms_norm_forward
from shardwise.backend.kernels.row.softmax import (
    log_softmax_backward,
    log_softmax_forward,
    softmax_backward,
    softmax_forward,
)

__all__ = ["rows"]

_SHAPES = ((3, 5), (2, 3, 64), (2, 1000), (2, 4099), (40, 1), (33, 24), (0, 4), (4, 0), (7,))


def rows() -> Iterator[tuple[str, Case]]:
    for shape in _SHAPES:
        name, n = "x".join(map(str, shape)), shape[-1]
        x, g = normal(*shape), normal(*shape)
        for kernel in (softmax_forward, log_softmax_forward):
            yield name, Case(kernel, (3.0 * x,), n)
        if n:
            yield name, Case(softmax_backward, (g, softmax_forward.plain(x)), n)
            yield name, Case(log_softmax_backward, (g, log_softmax_forward.plain(x)), n)
        weight, bias = normal(n), normal(n)
        if n:
            mean, rstd = layer_norm_forward.plain(x, None, None, 1e-5)[1:]
            scale = rms_norm_forward.plain(x, None, 1e-5)[1]
            for w, b in ((None, None), (weight, bias), (weight, None), (None, bias)):
                yield name, Case(layer_norm_forward, (x, w, b, 1e-5), n)
            for w in (None, weight):
                yield name, Case(rms_norm_forward, (x, w, 1e-5), n)
                yield name, Case(layer_norm_backward, (g, x, w, mean, rstd, 1e-5), x.size, 10.0)
                yield name, Case(layer_norm_backward, (g, x, w, None, None, 1e-5), x.size, 10.0)
                yield name, Case(rms_norm_backward, (g, x, w, scale, 1e-5), x.size, 10.0)
                yield name, Case(rms_norm_backward, (g, x, w, None, 1e-5), x.size, 10.0)
        yield name, Case(column_sum, (x,), x.size)
        yield name, Case(sum_of_squares, (x,), x.size)
        for dim in range(len(shape)):
            yield f"{name} along {dim}", Case(running_sum, (x, dim), shape[dim])
            yield f"{name} along {dim}", Case(running_product, (np.exp(0.05 * x), dim), shape[dim])
            for kernel in (running_largest, running_smallest):
                yield f"{name} along {dim}", Case(kernel, (np.round(x), dim))
    yield "many rows", Case(column_sum, (normal(1000, 3),), 1000)
    many = (normal(600, 3), normal(600, 3), None, None, None, 1e-5)
    yield "many rows", Case(layer_norm_backward, many, 600, 10.0)
    yield "transposed", Case(softmax_forward, (normal(7, 4).T,), 7)
    yield "transposed", Case(log_softmax_backward, (normal(7, 4).T, -np.abs(normal(7, 4)).T), 7)
    yield "broadcast", Case(column_sum, (np.broadcast_to(normal(1, 6), (5, 6)),), 5)
    odd = np.array(
        [[1.0, np.nan, 2.0], [np.inf, 0.0, 1.0], [-np.inf, -np.inf, -np.inf], [-np.inf, np.nan, 0.0]]
    )
    for kernel in (softmax_forward, log_softmax_forward):
        yield "odd", Case(kernel, (odd,), 3)
        yield "odd", Case(kernel, (np.repeat(odd, 100, axis=1),), 300)
    yield "odd", Case(layer_norm_forward, (odd, None, None, 1e-5), 3)
    yield "odd", Case(rms_norm_forward, (odd, None, 1e-5), 3)
    infinite = np.array([[1.0, -np.inf, 2.0], [-np.inf, -np.inf, 3.0], [2e4, -2e4, 2e4], [0.0, 1.0, -np.inf]])
    yield "infinite", Case(softmax_forward, (infinite,), 3)
    yield "infinite", Case(log_softmax_forward, (infinite,), 3)
    for kernel in (running_sum, running_product, running_largest, running_smallest):
        yield "infinite", Case(kernel, (infinite, 1), 3)
    gaps = np.array([1.0, np.nan, 2.0, 2.0, np.nan, -np.inf] * 200)
    for kernel in (running_largest, running_smallest):
        for kind in (gaps, gaps[2:4].repeat(600), -np.abs(gaps[::-1]), np.full(40, -np.inf)):
            yield "gaps", Case(kernel, (kind, 0))
            yield "gaps", Case(kernel, (kind.reshape(-1, 2), 0))
