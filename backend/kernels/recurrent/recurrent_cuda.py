"""Recurrent units on the device: a matrix product and a CUDA kernel per step; see ``lstm.py``, ``gru.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Launcher, contiguous, each, empty, optional, wide
from shardwise.backend.kernels.recurrent.sequence import step_order

__all__ = ["gru_backward", "gru_forward", "launch", "lstm_backward", "lstm_forward"]

launch = Launcher(DeviceSource("recurrent/recurrent.cu", dtypes=("float32", "float64")))


def lstm_forward(
    x: Array,
    first: Array,
    cell: Array,
    weight: Array,
    projection: Array | None,
    seen: Array | None,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    dtype = x.dtype
    x, first, cell, weight = _wide(x), _wide(first), _wide(cell), _wide(weight)
    projection = None if projection is None else _wide(projection)
    steps, count, units = len(x), *cell.shape
    states, cells = empty(x, (steps, *first.shape)), empty(x, (steps, *cell.shape))
    gates, inner = empty(x, x.shape), empty(x, cell.shape)
    h, c, across, mask = first, cell, np.swapaxes(weight, 0, 1), _mask(seen)
    for t in step_order(steps, reverse):
        shown = None if mask is None else mask[t]
        launch(
            "lstm_step",
            x.dtype,
            each(c.size, 16),
            *(x[t], contiguous(np.matmul(h, across)), c, None if projection is not None else h, shown),
            *(gates[t], cells[t], inner if projection is not None else states[t], units, count * units),
        )
        if projection is not None:
            state = np.matmul(inner, np.swapaxes(projection, 0, 1))
            states[t] = state if shown is None else np.where(shown.reshape(count, 1), state, h)
        h, c = states[t], cells[t]
    return _narrow(states, dtype), _narrow(gates, dtype), _narrow(cells, dtype)


def lstm_backward(
    g: Array,
    g_last: Array,
    g_cell: Array,
    cell: Array,
    weight: Array,
    projection: Array | None,
    gates: Array,
    cells: Array,
    seen: Array | None,
    reverse: bool,
) -> tuple[Array, Array, Array, Array]:
    dtype = g.dtype
    g, flowing, weight = _wide(g), _wide(g_last), _wide(weight)
    cell, gates, cells = _wide(cell), _wide(gates), _wide(cells)
    projection = None if projection is None else _wide(projection)
    steps, count, units = len(g), *cell.shape
    into, totals, mask = empty(g, gates.shape), empty(g, g.shape), _mask(seen)
    flowing_cell = g_cell.astype(g.dtype, order="C")  # a copy, which is written
    order = step_order(steps, reverse)
    for place in reversed(range(steps)):
        t = order[place]
        before = cells[order[place - 1]] if place else cell
        shown = None if mask is None else mask[t]
        total = flowing + g[t]
        totals[t] = total if shown is None else np.where(shown.reshape(count, 1), total, 0.0)
        inner = totals[t] if projection is None else contiguous(np.matmul(totals[t], projection))
        launch(
            "lstm_step_backward",
            g.dtype,
            each(count * units, 16),
            *(inner, flowing_cell, before, gates[t], cells[t], shown, into[t], units, count * units),
        )
        back = np.matmul(into[t], weight)
        flowing = back if shown is None else np.where(shown.reshape(count, 1), back, flowing)
    return (
        _narrow(into, dtype),
        _narrow(flowing, dtype),
        _narrow(flowing_cell, dtype),
        _narrow(totals, dtype),
    )


def gru_forward(
    x: Array, first: Array, weight: Array, bias: Array | None, seen: Array | None, reverse: bool
) -> tuple[Array, Array, Array, Array]:
    dtype = x.dtype
    x, first, weight = _wide(x), _wide(first), _wide(weight)
    bias = None if bias is None else _wide(bias)
    steps, count, units = len(x), *first.shape
    states, news, sides = (empty(x, (steps, count, units)) for _ in range(3))
    gates = empty(x, (steps, count, 2 * units))
    h, across, mask = first, np.swapaxes(weight, 0, 1), _mask(seen)
    for t in step_order(steps, reverse):
        launch(
            "gru_step",
            x.dtype,
            each(count * units, 16),
            *(x[t], contiguous(np.matmul(h, across)), bias, h, None if mask is None else mask[t]),
            *(gates[t], news[t], sides[t], states[t], units, count * units),
        )
        h = states[t]
    return _narrow(states, dtype), _narrow(gates, dtype), _narrow(news, dtype), _narrow(sides, dtype)


def gru_backward(
    g: Array,
    g_last: Array,
    first: Array,
    weight: Array,
    states: Array,
    gates: Array,
    news: Array,
    sides: Array,
    seen: Array | None,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    dtype = g.dtype
    g, flowing, first, weight = _wide(g), _wide(g_last), _wide(first), _wide(weight)
    states, gates, news, sides = _wide(states), _wide(gates), _wide(news), _wide(sides)
    steps, count, units = len(g), *first.shape
    into, aside = (empty(g, (steps, count, 3 * units)) for _ in range(2))
    through, mask = empty(g, (count, units)), _mask(seen)
    order = step_order(steps, reverse)
    for place in reversed(range(steps)):
        t = order[place]
        old = states[order[place - 1]] if place else first
        shown = None if mask is None else mask[t]
        launch(
            "gru_step_backward",
            g.dtype,
            each(count * units, 16),
            *(contiguous(flowing + g[t]), old, gates[t], news[t], sides[t], shown),
            *(into[t], aside[t], through, units, count * units),
        )
        back = np.matmul(aside[t], weight) + through
        flowing = back if shown is None else np.where(shown.reshape(count, 1), back, flowing)
    return _narrow(into, dtype), _narrow(aside, dtype), _narrow(flowing, dtype)


def _wide(x: Array) -> Array:
    return contiguous(x.astype(wide(x.dtype), copy=False))


def _narrow(x: Array, dtype: np.dtype[np.generic]) -> Array:
    return x.astype(dtype, copy=False)


def _mask(seen: Array | None) -> Array | None:
    """By step and row, contiguous, shape (t, n)."""
    if seen is None:
        return None
    return optional(seen.astype(np.bool_, copy=False).reshape(seen.shape[:2]))
