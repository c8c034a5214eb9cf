"""The fused steps of a long short-term memory for NumPy arrays; the formulas are in ``lstm.py``.

A step is one matrix product and one compiled call, which write where their results stay.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import boolean, device, fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.recurrent.sequence import packed, seen_rows, step_order
from shardwise.backend.kernels.scalar.exponential_cpu import sigmoid, tanh
from shardwise.backend.product import matmul

__all__ = ["lstm_backward", "lstm_forward"]


def lstm_forward(
    x: Array,
    first: Array,
    cell: Array,
    weight: Array,
    projection: Array | None,
    seen: Array | None,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    steps, rows, _ = x.shape
    x, h, c = contiguous(x), contiguous(first), contiguous(cell)
    states, gates, cells = (np.empty((steps, *like.shape), x.dtype) for like in (h, x[0], c))
    inner, across = np.empty_like(c), packed(weight.T, steps, rows)
    mask = seen_rows(seen, steps, rows)
    for t in step_order(steps, reverse):
        matmul(h, across, out=gates[t])
        _forward(x[t], c, mask[t], h, gates[t], cells[t], states[t] if projection is None else inner)
        c = cells[t]
        if projection is not None:
            matmul(inner, projection.T, out=states[t])
            if seen is not None:
                np.copyto(states[t], h, where=~mask[t][:, np.newaxis])
        h = states[t]
    return states, gates, cells


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
    steps, rows, _ = g.shape
    dx, totals = np.empty_like(gates), np.empty(g.shape, g.dtype)
    gates, cells, first_cell = contiguous(gates), contiguous(cells), contiguous(cell)
    flowing, flowing_cell = g_last.copy(), g_cell.copy()
    mask = seen_rows(seen, steps, rows)
    order = step_order(steps, reverse)
    for place in range(steps - 1, -1, -1):
        t = order[place]
        old = cells[order[place - 1]] if place else first_cell
        total = np.add(flowing, g[t], out=totals[t])
        if seen is not None:
            total[~mask[t]] = 0.0
        inner = total if projection is None else matmul(total, projection)
        _backward(contiguous(inner), gates[t], cells[t], old, mask[t], flowing_cell, dx[t])
        if seen is None:
            matmul(dx[t], weight, out=flowing)
        else:
            np.copyto(flowing, matmul(dx[t], weight), where=mask[t][:, np.newaxis])
    return dx, flowing, flowing_cell, totals


# In a row of a step all that is read and written lies in the nearest cache, so that short loops, each over
# one gate, cost nothing more than one over all. LLVM vectorises a loop if it needs to ask of few pairs of
# arrays whether they overlap, and would ask of too many in one over all.


@device()
def _squash(gate: Array, given: Array) -> None:
    for j in range(gate.size):
        gate[j] = sigmoid(gate[j] + given[j])


@fused(
    lambda real: (
        *(read(real, 2), read(real, 2), read(boolean, 1), read(real, 2)),
        *(write(real, 2), write(real, 2), write(real, 2)),
    )
)
def _forward(
    x: Array, cell: Array, seen: Array, old: Array, gates: Array, new_cell: Array, out: Array
) -> None:
    rows, n = cell.shape
    for r in range(rows):
        gate = gates[r]
        i, f, new, o = gate[:n], gate[n : 2 * n], gate[2 * n : 3 * n], gate[3 * n :]
        _squash(gate[: 2 * n], x[r, : 2 * n])
        given = x[r, 2 * n : 3 * n]
        for j in range(n):
            new[j] = tanh(new[j] + given[j])
        _squash(o, x[r, 3 * n :])
        if seen[r]:
            c, before, state = new_cell[r], cell[r], out[r]
            for j in range(n):
                c[j] = f[j] * before[j] + i[j] * new[j]
            for j in range(n):
                state[j] = o[j] * tanh(c[j])
        else:
            for j in range(n):
                new_cell[r, j] = cell[r, j]
            as_before = old.shape[1] == n  # else it is projected, and the state put back behind that
            for j in range(n):
                out[r, j] = old[r, j] if as_before else x.dtype.type(0)


@fused(
    lambda real: (
        *(read(real, 2), read(real, 2), read(real, 2), read(real, 2), read(boolean, 1)),
        *(write(real, 2), write(real, 2)),
    )
)
def _backward(
    inner: Array, gates: Array, cells: Array, old: Array, seen: Array, flowing_cell: Array, dx: Array
) -> None:
    rows, n = cells.shape
    one = cells.dtype.type(1)
    for r in range(rows):
        out, d_cell = dx[r], flowing_cell[r]
        if not seen[r]:
            for j in range(4 * n):
                out[j] = cells.dtype.type(0)
            continue
        gate = gates[r]
        i, f, new, o = gate[:n], gate[n : 2 * n], gate[2 * n : 3 * n], gate[3 * n :]
        d_i, d_f, d_new, d_o = out[:n], out[n : 2 * n], out[2 * n : 3 * n], out[3 * n :]
        c, before, g = cells[r], old[r], inner[r]
        for j in range(n):
            squashed = tanh(c[j])
            d_o[j] = g[j] * squashed * o[j] * (one - o[j])
            d_cell[j] = d_cell[j] + g[j] * o[j] * (one - squashed * squashed)
        for j in range(n):
            d_i[j] = d_cell[j] * new[j] * i[j] * (one - i[j])
        for j in range(n):
            d_f[j] = d_cell[j] * before[j] * f[j] * (one - f[j])
        for j in range(n):
            d_new[j] = d_cell[j] * i[j] * (one - new[j] * new[j])
        for j in range(n):
            d_cell[j] = d_cell[j] * f[j]
