"""Long short-term memory over the whole sequence, with backpropagation through time by hand.

Shapes: t steps, n sequences, h features of the cell, p those of the state, which is the cell's output
projected, or p = h without projection; the gates i, f, g, o lie behind each other. See `recurrent`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.recurrent import (
    Shapes,
    gated_flops,
    previous,
    products,
    stacked,
    step_order,
    where_seen,
)

__all__ = ["Lstm"]


def _signature(shapes: Shapes, params: dict[str, Any]) -> str:
    projected = any(len(shape) == 2 for shape in shapes[4:])
    state = "p" if projected else "h"
    more = "".join(",[p][h]" if len(shape) == 2 else ",[t]n1" for shape in shapes[4:])
    inputs = f"[t]n[g],n[{state}],n[h],[g][{state}]{more}"
    return f"{inputs}->[t]n[{state}],n[{state}],n[h]"


class Lstm(Function):
    """``c' = f * c + i * g``, ``h' = o * tanh(c')`` (Hochreiter and Schmidhuber 1997; Gers et al. 2000).

    ``i, f, o = sigmoid(x_ifo + s_ifo)``, ``g = tanh(x_g + s_g)``, where ``s = h @ weight.T``. With a
    projection the state is ``h' @ projection.T`` (Sak et al. 2014).
    """

    signature = _signature
    flops = gated_flops

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        first: Array,
        cell: Array,
        weight: Array,
        projection: Array | None,
        seen: Array | None,
        reverse: bool,
    ) -> tuple[Array, Array, Array]:
        ctx.reverse, ctx.seen = reverse, seen
        states, gates, cells = _steps(x, first, cell, weight, projection, seen, reverse)
        whole = stacked(states)
        out = whole if seen is None else np.where(seen, whole, 0.0)
        statistics = [whole, stacked(gates), stacked(cells)] if True in ctx.need else []
        ctx.save(x, first, cell, weight, projection, *statistics)
        last = 0 if reverse else len(states) - 1
        return out, states[last].copy(), cells[last].copy()

    @staticmethod
    def backward(ctx: Context, g: Array, g_last: Array, g_cell: Array) -> Gradients:
        x, first, cell, weight, projection, states, gates, cells = ctx.saved
        if gates is None:
            steps = _steps(x, first, cell, weight, projection, ctx.seen, ctx.reverse)
            states, gates, cells = (stacked(part) for part in steps)
        grads, gate_list, old_cells = list(g), list(gates), list(previous(cells, cell, ctx.reverse))
        squashed = np.tanh(cells)
        squashed_list = list(squashed)
        n = cell.shape[-1]
        into: dict[int, Any] = {}
        totals: dict[int, Any] = {}
        flowing, flowing_cell = g_last, g_cell
        for t in reversed(step_order(len(grads), ctx.reverse)):
            total = totals[t] = where_seen(ctx.seen, t, flowing + grads[t], 0.0)
            i, f, new, o = (gate_list[t][:, k * n : (k + 1) * n] for k in range(4))
            inner = total if projection is None else np.matmul(total, projection)
            d_cell = flowing_cell + inner * o * (1.0 - squashed_list[t] * squashed_list[t])
            d_i, d_f = d_cell * new * i * (1.0 - i), d_cell * old_cells[t] * f * (1.0 - f)
            d_new, d_o = d_cell * i * (1.0 - new * new), inner * squashed_list[t] * o * (1.0 - o)
            into[t] = where_seen(ctx.seen, t, np.concatenate([d_i, d_f, d_new, d_o], axis=1), 0.0)
            flowing = where_seen(ctx.seen, t, np.matmul(into[t], weight), flowing)
            flowing_cell = where_seen(ctx.seen, t, d_cell * f, flowing_cell)
        dx, dweight, dprojection = stacked(into), None, None
        if ctx.need[3]:
            dweight = products(dx, previous(states, first, ctx.reverse), ctx.into[3])
        if ctx.need[4]:
            dprojection = products(stacked(totals), gates[:, :, 3 * n :] * squashed, ctx.into[4])
        return dx, flowing, flowing_cell, dweight, dprojection, None


def _steps(
    x: Any, first: Any, cell: Any, weight: Any, projection: Any, seen: Any, reverse: bool
) -> tuple[dict[int, Any], dict[int, Any], dict[int, Any]]:
    """Return, by step: the states, the gates, and the cells."""
    inputs, h, c = list(x), first, cell
    across = np.swapaxes(weight, 0, 1)
    n = cell.shape[-1]
    # One tanh for all gates: sigmoid(x) is tanh(x / 2) / 2 + 1 / 2.
    half = np.full_like(cell, 0.5, shape=(n,))
    whole, none = np.ones_like(cell, shape=(n,)), np.zeros_like(cell, shape=(n,))
    scale = np.concatenate([half, half, whole, half], axis=0)
    shift = np.concatenate([half, half, none, half], axis=0)
    states: dict[int, Any] = {}
    gates: dict[int, Any] = {}
    cells: dict[int, Any] = {}
    for t in step_order(len(inputs), reverse):
        total = inputs[t] + np.matmul(h, across)
        gates[t] = np.tanh(total * scale) * scale + shift
        i, f, new, o = (gates[t][:, k * n : (k + 1) * n] for k in range(4))
        c = cells[t] = where_seen(seen, t, f * c + i * new, c)
        inner = o * np.tanh(c)
        state = inner if projection is None else np.matmul(inner, np.swapaxes(projection, 0, 1))
        h = states[t] = where_seen(seen, t, state, h)
    return states, gates, cells
