"""What the kernels for CuPy arrays are tried on: emulated on the CPU, and on a device where there is one.

A case is a kernel and its arguments in float64. Whoever runs it casts the floating arrays to a dtype, and
compares with the plain formula on these arrays, widened to float64.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.backend.kernels.activation import (
    erf,
    gelu_backward,
    gelu_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
)
from shardwise.backend.kernels.attention import Dropped, attention_backward, attention_forward
from shardwise.backend.kernels.batch_norm import batch_norm_backward, batch_norm_forward
from shardwise.backend.kernels.convolution import add_windows_, take_windows_
from shardwise.backend.kernels.depthwise import depthwise_forward, depthwise_input, depthwise_weight
from shardwise.backend.kernels.dropout import dropout_backward, dropout_forward
from shardwise.backend.kernels.embedding import embedding_backward
from shardwise.backend.kernels.gate import glu_backward, glu_forward, swiglu_backward, swiglu_forward
from shardwise.backend.kernels.gather import gather_along, scatter_along
from shardwise.backend.kernels.group_norm import group_norm_backward, group_norm_forward
from shardwise.backend.kernels.gru import gru_backward, gru_forward
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.loss import (
    cross_entropy_and_slope,
    cross_entropy_backward,
    cross_entropy_forward,
)
from shardwise.backend.kernels.lstm import lstm_backward, lstm_forward
from shardwise.backend.kernels.norm import layer_norm_backward, layer_norm_forward
from shardwise.backend.kernels.pointwise_table import POINTWISE_KERNELS
from shardwise.backend.kernels.pooling import (
    average_backward,
    average_forward,
    maximum_backward,
    maximum_forward,
)
from shardwise.backend.kernels.reduction import column_sum, sum_of_squares
from shardwise.backend.kernels.resampling import resample_backward, resample_forward
from shardwise.backend.kernels.rms_norm import rms_norm_backward, rms_norm_forward
from shardwise.backend.kernels.scan import (
    running_largest,
    running_product,
    running_smallest,
    running_sum,
)
from shardwise.backend.kernels.scatter import scatter_rows
from shardwise.backend.kernels.softmax import (
    log_softmax_backward,
    log_softmax_forward,
    softmax_backward,
    softmax_forward,
)
from shardwise.backend.kernels.weighted_loss import (
    soft_cross_entropy_backward,
    soft_cross_entropy_forward,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)

__all__ = ["CASES", "Case", "cast", "results"]


@dataclass(frozen=True, slots=True)
class Case:
    """A call of a kernel.

    `length` is how many terms its longest sum has, and `scale` the size of terms that may cancel.
    """

    kernel: Kernel[..., Any]
    arguments: tuple[Any, ...]
    length: int = 1
    scale: float = 1e-3


def cast(arguments: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The arguments with floating arrays in `dtype`, laid out as they were."""
    return tuple(
        x.astype(dtype, order="K") if isinstance(x, np.ndarray) and x.dtype.kind not in "iub" else x
        for x in arguments
    )


def results(kernel: Kernel[..., Any], arguments: tuple[Any, ...], answer: Any) -> tuple[Any, ...]:
    """What a call made: what it returned, or else the array that it wrote."""
    if answer is None:
        return (arguments[0],)
    return tuple(part for part in answer if part is not None) if isinstance(answer, tuple) else (answer,)


_RNG = np.random.default_rng(17)
_SHAPES = ((3, 5), (2, 3, 64), (2, 1000), (2, 4099), (40, 1), (33, 24), (0, 4), (4, 0), (7,))
_EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 30.0, -30.0, 200.0, -200.0, 11.0, -11.0, 1.0, -0.5]
)
_WINDOWS: dict[str, tuple[tuple[int, ...], ...]] = {
    # size, kernel, stride, padding, dilation
    "line": ((9,), (3,), (2,), (1,), (1,)),
    "image": ((7, 6), (3, 2), (1, 2), (1, 0), (1, 2)),
    "volume": ((4, 5, 3), (2, 2, 2), (2, 1, 1), (0, 1, 0), (1, 1, 2)),
    "far": ((5, 5), (3, 3), (2, 3), (4, 3), (2, 1)),  # some windows lie outside
}


def _normal(*shape: int) -> Any:
    return np.asarray(2.0 * _RNG.standard_normal(shape))


def _pointwise() -> Iterator[tuple[str, Case]]:
    inputs = {
        "any": _normal(3, 4, 5),
        "long": _normal(5003),
        "transposed": _normal(6, 7).T,
        "strided": _normal(40)[::-3],
        "none": _normal(0, 3),
        "one": np.array(0.5),
        "edges": _EDGES,
    }
    for name, x in inputs.items():
        g = np.where(np.isfinite(x), x, 1.0) + 0.5 if name == "edges" else _normal(*x.shape)
        for kernel in (erf, gelu_forward, gelu_tanh_forward):
            if name != "edges" or kernel is not gelu_forward:
                yield name, Case(kernel, (x,))
        for kernel in (gelu_backward, gelu_tanh_backward):
            yield name, Case(kernel, (g, x))


def _formulas() -> Iterator[tuple[str, Case]]:
    """Kernels that are made of their formulas: any numbers will do, those that are bounds in rising order."""
    shapes = {
        "any": [(3, 4, 5)] * 3,
        "long": [(5003,)] * 3,
        "broadcast": [(2, 3, 4), (3, 1), (4,)],
        "one": [(), (1, 5), (1, 1)],
        "none": [(0, 3)] * 3,
    }
    for kernel in POINTWISE_KERNELS:
        names = list(inspect.signature(kernel.plain).parameters)
        arrays = [name for name in names if name in kernel._array_names]
        numbers = np.linspace(0.3, 1.1, len(names) - len(arrays)).tolist()
        for label, sizes in shapes.items():
            given = [_normal(*size) for size, _ in zip(sizes, arrays, strict=False)]
            masked = [x > 0.0 if name == "mask" else x for name, x in zip(arrays, given, strict=True)]
            yield label, Case(kernel, (*masked, *numbers), scale=0.1)
        special = [np.roll(_EDGES, 5 * i) for i in range(len(arrays))]
        masked = [x > 0.0 if name == "mask" else x for name, x in zip(arrays, special, strict=True)]
        yield "edges", Case(kernel, (*masked, *numbers), scale=0.1)


def _rows() -> Iterator[tuple[str, Case]]:
    for shape in _SHAPES:
        name, n = "x".join(map(str, shape)), shape[-1]
        x, g = _normal(*shape), _normal(*shape)
        for kernel in (softmax_forward, log_softmax_forward):
            yield name, Case(kernel, (3.0 * x,), n)
        if n:
            yield name, Case(softmax_backward, (g, softmax_forward.plain(x)), n)
            yield name, Case(log_softmax_backward, (g, log_softmax_forward.plain(x)), n)
        weight, bias = _normal(n), _normal(n)
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
    yield "many rows", Case(column_sum, (_normal(1000, 3),), 1000)
    many = (_normal(600, 3), _normal(600, 3), None, None, None, 1e-5)
    yield "many rows", Case(layer_norm_backward, many, 600, 10.0)
    yield "transposed", Case(softmax_forward, (_normal(7, 4).T,), 7)
    yield "transposed", Case(log_softmax_backward, (_normal(7, 4).T, -np.abs(_normal(7, 4)).T), 7)
    yield "broadcast", Case(column_sum, (np.broadcast_to(_normal(1, 6), (5, 6)),), 5)
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


def _attention() -> Iterator[tuple[str, Case]]:
    dropped = Dropped(0.3, 7, 2**35, 5)
    for name, (lead, t, s, d, e) in {
        "square": ((2, 3), 5, 5, 4, 4),
        "wide": ((2,), 3, 70, 8, 5),
        "tall": ((), 40, 6, 3, 2),
        "long": ((1,), 70, 66, 2, 2),
        "no keys": ((2,), 3, 0, 4, 4),
        "no queries": ((2,), 0, 3, 4, 4),
    }.items():
        q, k, v = _normal(*lead, t, d), _normal(*lead, s, d), _normal(*lead, s, e)
        hidden = _RNG.random((t, s)) < 0.7
        hidden[:1] = False  # a query without keys
        many = _normal(*lead, t, s)
        for causal, bias, mask, drop in (
            (False, None, None, None),
            (True, None, None, dropped),
            (True, _normal(s), None, None),
            (False, many, hidden, None),
            (False, None, hidden[:, :1], dropped),
        ):
            settings = (0.5, causal, drop)
            y, peak, share = attention_forward.plain(q, k, v, bias, mask, *settings)
            g = _normal(*y.shape)
            yield name, Case(attention_forward, (q, k, v, bias, mask, *settings), s)
            for statistics in ((peak, share), (None, None)):
                arguments = (g, q, k, v, bias, mask, y, *statistics, *settings)
                yield name, Case(attention_backward, arguments, max(s, t), 10.0)
    q, k = _normal(2, 1, 3, 4, 5), _normal(2, 2, 1, 6, 5)  # heads that share keys
    y = attention_forward.plain(q, k, k, None, None, -0.3, True)[0]
    yield "shared", Case(attention_forward, (q, k, k, None, None, -0.3, True), 6)
    yield (
        "shared",
        Case(attention_backward, (y + 1.0, q, k, k, None, None, y, None, None, -0.3, True), 6, 10.0),
    )
    some = (False, True, False, False)
    arguments = (y + 1.0, q, k, k, None, None, y, None, None, 0.3, True, None, some)
    yield "one needed", Case(attention_backward, arguments, 6, 10.0)


def _losses() -> Iterator[tuple[str, Case]]:
    for count, classes in ((5, 7), (3, 1000), (2, 4099), (40, 1), (0, 3), (6, 16)):
        name = f"{count}x{classes}"
        logits, g = 3.0 * _normal(count, classes), _normal(count)
        for kind in (np.int64, np.int32):
            target = _RNG.integers(0, classes, count).astype(kind)
            target[1::3] = -100
            logsumexp = cross_entropy_forward.plain(logits, target, -100)[1] if count else _normal(0)
            yield name, Case(cross_entropy_forward, (logits, target, -100), classes)
            yield name, Case(cross_entropy_backward, (g, logits, target, logsumexp, -100), classes)
            yield name, Case(cross_entropy_backward, (g, logits, target, None, -100), classes)
            yield name, Case(cross_entropy_and_slope, (logits, target, -100, 0.25), classes)
    labels = np.array([2, 0, -1])
    huge = np.array([[2e4, 2e4, -2e4], [0.0, -np.inf, 1.0], [np.nan, 0.0, 0.0]])
    yield "huge", Case(cross_entropy_forward, (huge, labels, -1), 3)
    shared = np.broadcast_to(np.array(0.25), 3)
    yield "shared", Case(cross_entropy_backward, (shared, _normal(3, 4), labels, None, -1), 4)


def _weighted_losses() -> Iterator[tuple[str, Case]]:
    for count, classes in ((5, 7), (3, 1000), (40, 1), (0, 3), (6, 16)):
        name = f"{count}x{classes}"
        logits, g, p = 3.0 * _normal(count, classes), _normal(count), _RNG.random((count, classes))
        target = _RNG.integers(0, classes, count)
        target[1::3] = -100
        for weight, smoothing in ((None, 0.1), (_RNG.random(classes), 0.0), (_RNG.random(classes), 0.3)):
            hard = (logits, target, weight, -100, smoothing)
            soft = (logits, p, weight, smoothing)
            yield name, Case(weighted_cross_entropy_forward, hard, classes)
            yield name, Case(soft_cross_entropy_forward, soft, classes)
            for known in (True, False):
                total = weighted_cross_entropy_forward.plain(*hard)[1] if known else None
                hard_back = (logits, g, *hard[1:3], total, *hard[3:])
                soft_back = (logits, g, *soft[1:3], total, smoothing)
                yield name, Case(weighted_cross_entropy_backward, hard_back, classes, 3.0)
                yield name, Case(soft_cross_entropy_backward, soft_back, classes, 3.0)


def _gates() -> Iterator[tuple[str, Case]]:
    for shape in ((3, 4), (2, 6, 5), (2, 3, 32), (0, 4), (2, 1000)):
        x = 3.0 * _normal(*shape)
        x.flat[:3] = np.array([-np.inf, np.inf, 200.0])[: x.size]
        g = _normal(*shape[:-1], shape[-1] // 2)
        name = "x".join(map(str, shape))
        if shape[-1] % 2 == 0:
            yield name, Case(swiglu_forward, (x,))
            yield name, Case(swiglu_backward, (g, x))
        for dim in range(-1, len(shape) - 1):
            if shape[dim] % 2 == 0:
                half = _normal(*(n // 2 if i == dim % len(shape) else n for i, n in enumerate(shape)))
                yield f"{name} along {dim}", Case(glu_forward, (x, dim))
                yield f"{name} along {dim}", Case(glu_backward, (half, x, dim), scale=100.0)


def _recurrent() -> Iterator[tuple[str, Case]]:
    for name, (t, n, h, p) in {"few": (3, 4, 5, 5), "one": (1, 1, 1, 1), "some": (4, 3, 6, 2)}.items():
        seen = _RNG.random((t, n, 1)) < 0.7
        for reverse, mask in ((False, None), (True, seen)):
            x, first, cell = _normal(t, n, 4 * h), _normal(n, p), _normal(n, h)
            weight, projection = _normal(4 * h, p), _normal(p, h) if p != h else None
            start = (x, first, cell, weight, projection, mask, reverse)
            _, gates, cells = lstm_forward.plain(*start)
            given = (_normal(t, n, p), _normal(n, p), _normal(n, h), cell, weight, projection)
            yield name, Case(lstm_forward, start, 20 * t)
            yield name, Case(lstm_backward, (*given, gates, cells, mask, reverse), 100 * t)
            x, first, weight = _normal(t, n, 3 * h), _normal(n, h), _normal(3 * h, h)
            for bias in (None, _normal(3 * h)):
                yield name, Case(gru_forward, (x, first, weight, bias, mask, reverse), 20 * t)
            results = gru_forward.plain(x, first, weight, None, mask, reverse)
            given = (_normal(t, n, h), _normal(n, h), first, weight)
            yield name, Case(gru_backward, (*given, *results, mask, reverse), 100 * t)


def _dropouts() -> Iterator[tuple[str, Case]]:
    for offset in (0, 1, 3, 2**33 + 2):
        for size in (1, 7, 1000):
            name, x = f"{size} from {offset}", _normal(size)
            yield name, Case(dropout_forward, (x, 0.3, -5, 2**40 + 7, offset))
            yield name, Case(dropout_backward, (x, _RNG.random(size) < 0.5, 0.3))
    for p in (0.0, 1.0):
        yield f"p = {p}", Case(dropout_forward, (_normal(3, 4), p, 1, 2, 0))
        yield f"p = {p}", Case(dropout_backward, (_normal(3, 4), _normal(3, 4) > 0.0, p))
    yield "none", Case(dropout_forward, (_normal(0), 0.5, 1, 2, 0))
    yield "transposed", Case(dropout_forward, (_normal(5, 4).T, 0.5, 1, 2, 9))


def _planes() -> Iterator[tuple[str, Case]]:
    for shape, groups in (((5, 4), 2), ((3, 4, 7), 4), ((2, 6, 8, 8), 3), ((2, 3, 1100), 1), ((1, 2, 3), 1)):
        name, c, n = "x".join(map(str, shape)), shape[1], int(np.prod(shape))
        x, g = _normal(*shape) + 1.0, _normal(*shape)
        for weight, bias in ((None, None), (_normal(c), _normal(c))):
            batch = batch_norm_forward.plain(x, weight, bias, 1e-5)[1:]
            group = group_norm_forward.plain(x, weight, bias, groups, 1e-5)[1:]
            yield name, Case(batch_norm_forward, (x, weight, bias, 1e-5), n)
            yield name, Case(group_norm_forward, (x, weight, bias, groups, 1e-5), n)
            for statistics in (batch, (None, None)):
                yield name, Case(batch_norm_backward, (g, x, weight, *statistics, 1e-5), n, 10.0)
            for statistics in (group, (None, None)):
                yield name, Case(group_norm_backward, (g, x, weight, *statistics, groups, 1e-5), n, 10.0)
    x = np.moveaxis(_normal(2, 5, 4), 1, 2)
    yield "transposed", Case(batch_norm_forward, (x, None, None, 1e-5), 40)
    yield "transposed", Case(group_norm_backward, (np.sin(3.0 * x), x, None, None, None, 2, 1e-5), 40)


def _scatters() -> Iterator[tuple[str, Case]]:
    for outer, n, inner, size in (
        (1, 6, 1, 4),
        (2, 5, 3, 4),
        (3, 2, 16, 7),
        (1, 300, 8, 20),
        (2, 0, 3, 4),
        (1, 3, 0, 2),
    ):
        name = f"{outer}x{n}x{inner} of {size}"
        x, g = _normal(outer, size, inner), _normal(outer, n, inner)
        each = _RNG.integers(0, size, (outer, n, inner))
        rows = _RNG.integers(0, size, n).astype(np.int32)
        yield name, Case(gather_along, (x, each))
        yield name, Case(gather_along, (x, each - size, True))
        yield name, Case(scatter_along, (g, each, size), n)
        yield name, Case(scatter_along, (g, each - size, size), n)
        if n:
            yield name, Case(scatter_rows, (g, rows, size), n)
        if outer == 1:
            yield name, Case(embedding_backward, (g[0], rows, size), n)
        if n:
            taps = _RNG.integers(0, size, (2, n))
            yield name, Case(resample_forward, (x, taps, _normal(2, n)), 2)
            yield name, Case(resample_backward, (g, taps, _normal(2, n), size), 2 * n)
    yield "tokens", Case(embedding_backward, (_normal(2, 3, 4), _RNG.integers(0, 5, (2, 3)), 5), 6)
    yield "transposed", Case(embedding_backward, (_normal(4, 6).T, _RNG.integers(0, 5, 6), 5), 6)


def _ranges(size: int, kernel: int, stride: int, padding: int, dilation: int) -> tuple[range, ...]:
    """What a pooling window sees at each place, cut at the edges."""
    out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    seen = []
    for o in range(out):
        inside = [a for k in range(kernel) if 0 <= (a := o * stride + k * dilation - padding) < size]
        seen.append(range(inside[0], inside[-1] + 1, dilation) if inside else range(0))
    return tuple(seen)


def _windows() -> Iterator[tuple[str, Case]]:
    for name, (size, kernel, stride, padding, dilation) in _WINDOWS.items():
        places = zip(size, kernel, stride, padding, dilation, strict=True)
        windows = tuple(_ranges(*numbers) for numbers in places)
        out = tuple(map(len, windows))
        spacing = (stride, padding, dilation)
        x, g = _normal(2, 3, *size), _normal(2, 3, *out)
        columns = _normal(3, *kernel, 2, *out)
        yield name, Case(take_windows_, (np.full_like(columns, np.nan), x, *spacing))
        yield name, Case(add_windows_, (x, columns, *spacing), 30)
        for many in (1, 2):
            weight, gradient = _normal(3 * many, 1, *kernel), _normal(2, 3 * many, *out)
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
    yield "adaptive", Case(average_forward, (_normal(2, 2, 7), adaptive, ((3, 3, 4),)), 4)
    yield "adaptive", Case(average_backward, (_normal(2, 2, 3), adaptive, ((3, 3, 4),), (7,)), 4)
    yield "no batch", Case(average_forward, (_normal(0, 2, 7), adaptive, ((3, 3, 4),)), 4)


def _named() -> Iterator[tuple[str, Case]]:
    families = (
        _pointwise,
        _formulas,
        _rows,
        _attention,
        _losses,
        _weighted_losses,
        _gates,
        _recurrent,
        _dropouts,
        _planes,
        _scatters,
        _windows,
    )
    for name, case in (pair for family in families for pair in family()):
        yield f"{case.kernel.name}: {name}", case


@np.errstate(all="ignore")
def _numbered() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name, case in _named():
        number, unique = 1, name
        while unique in cases:
            number += 1
            unique = f"{name} ({number})"
        cases[unique] = case
    return cases


CASES = _numbered()
