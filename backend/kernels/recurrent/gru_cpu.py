"""The fused steps of a gated recurrent unit for NumPy arrays; the formulas are in ``gru.py``.

As in ``lstm_cpu.py`` a step is one matrix product and one compiled call, with a loop for each gate.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import boolean, fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.recurrent.sequence import packed, seen_rows, step_order
from shardwise.backend.kernels.scalar.exponential_cpu import sigmoid, tanh
from shardwise.backend.product import matmul

__all__ = ["gru_backward", "gru_forward"]


def gru_forward(
    x: Array, first: Array, weight: Array, bias: Array | None, seen: Array | None, reverse: bool
) -> tuple[Array, Array, Array, Array]:
    (steps, rows, width), n = x.shape, first.shape[1]
    x, h, across = contiguous(x), contiguous(first), packed(weight.T, steps, rows)
    added = np.zeros(width, x.dtype) if bias is None else contiguous(bias)
    states, news, sides = (np.empty((steps, rows, n), x.dtype) for _ in range(3))
    gates, product = np.empty((steps, rows, 2 * n), x.dtype), np.empty((rows, width), x.dtype)
    mask = seen_rows(seen, steps, rows)
    for t in step_order(steps, reverse):
        matmul(h, across, out=product)
        _forward(x[t], product, added, h, mask[t], gates[t], news[t], sides[t], states[t])
        h = states[t]
    return states, gates, news, sides


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
    steps, rows, n = g.shape
    states, gates, news, sides = (contiguous(part) for part in (states, gates, news, sides))
    g, begin = contiguous(g), contiguous(first)
    dx, dside = (np.empty((steps, rows, 3 * n), g.dtype) for _ in range(2))
    flowing, product = np.array(g_last, order="C"), np.empty((rows, n), g.dtype)
    mask, order = seen_rows(seen, steps, rows), step_order(steps, reverse)
    for place in range(steps - 1, -1, -1):
        t = order[place]
        old = states[order[place - 1]] if place else begin
        _backward(g[t], gates[t], news[t], sides[t], old, mask[t], flowing, dx[t], dside[t])
        flowing += matmul(dside[t], weight, out=product)
    return dx, dside, flowing


@fused(
    lambda real: (
        *(read(real, 2), read(real, 2), read(real, 1), read(real, 2), read(boolean, 1)),
        *(write(real, 2), write(real, 2), write(real, 2), write(real, 2)),
    )
)
def _forward(
    x: Array,
    product: Array,
    bias: Array,
    old: Array,
    seen: Array,
    gates: Array,
    news: Array,
    sides: Array,
    states: Array,
) -> None:
    rows, n = old.shape
    for r in range(rows):
        given, across, gate = x[r], product[r], gates[r]
        for j in range(2 * n):
            gate[j] = sigmoid(given[j] + (across[j] + bias[j]))
        reset, keep, before = gate[:n], gate[n:], old[r]
        given, across, added = given[2 * n :], across[2 * n :], bias[2 * n :]
        new, side, state = news[r], sides[r], states[r]
        for j in range(n):
            side[j] = across[j] + added[j]
        for j in range(n):
            new[j] = tanh(given[j] + reset[j] * side[j])
        if seen[r]:
            for j in range(n):
                state[j] = new[j] + keep[j] * (before[j] - new[j])
        else:
            for j in range(n):
                state[j] = before[j]


@fused(
    lambda real: (
        *(read(real, 2), read(real, 2), read(real, 2), read(real, 2), read(real, 2), read(boolean, 1)),
        *(write(real, 2), write(real, 2), write(real, 2)),
    )
)
def _backward(
    g: Array,
    gates: Array,
    news: Array,
    sides: Array,
    old: Array,
    seen: Array,
    flowing: Array,
    dx: Array,
    dside: Array,
) -> None:
    rows, n = old.shape
    zero, one = old.dtype.type(0), old.dtype.type(1)
    for r in range(rows):
        out, aside = dx[r], dside[r]
        if not seen[r]:
            for j in range(3 * n):
                out[j] = zero
            for j in range(3 * n):
                aside[j] = zero
            continue
        gate, new, side, before = gates[r], news[r], sides[r], old[r]
        reset, keep, total, given = gate[:n], gate[n:], flowing[r], g[r]
        d_reset, d_keep, d_new = out[:n], out[n : 2 * n], out[2 * n :]
        d_side = aside[2 * n :]
        for j in range(n):
            total[j] = total[j] + given[j]
        for j in range(n):
            d_new[j] = total[j] * (one - keep[j]) * (one - new[j] * new[j])
        for j in range(n):
            d_keep[j] = total[j] * (before[j] - new[j]) * keep[j] * (one - keep[j])
        for j in range(n):
            d_reset[j] = d_new[j] * side[j] * reset[j] * (one - reset[j])
        for j in range(2 * n):
            aside[j] = out[j]
        for j in range(n):
            d_side[j] = d_new[j] * reset[j]
        for j in range(n):
            total[j] = total[j] * keep[j]
