"""Long short-term memory over the whole sequence, with backpropagation through time by hand.

Shapes: t steps, n sequences, h features of the cell, p those of the state, which is the cell's output
projected, or p = h without projection; the gates i, f, g, o lie behind each other. See `recurrent`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.recurrent.lstm import lstm_backward, lstm_forward
from shardwise.backend.kernels.recurrent.sequence import previous
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.recurrent import Shapes, gated_flops, products

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
        states, gates, cells = lstm_forward(x, first, cell, weight, projection, seen, reverse)
        out = states if seen is None else np.where(seen, states, 0.0)
        statistics = [states, gates, cells] if True in ctx.need else []
        ctx.save(x, first, cell, weight, projection, *statistics)
        last = 0 if reverse else len(states) - 1
        return out, states[last].copy(), cells[last].copy()

    @staticmethod
    def backward(ctx: Context, g: Array, g_last: Array, g_cell: Array) -> Gradients:
        x, first, cell, weight, projection, states, gates, cells = ctx.saved
        seen, reverse = ctx.seen, ctx.reverse
        if gates is None:
            states, gates, cells = lstm_forward(x, first, cell, weight, projection, seen, reverse)
        dx, dfirst, dcell, totals = lstm_backward(
            g, g_last, g_cell, cell, weight, projection, gates, cells, seen, reverse
        )
        dweight = dprojection = None
        if ctx.need[3]:
            dweight = products(dx, previous(states, first, reverse), ctx.into[3])
        if ctx.need[4]:
            n = cell.shape[-1]
            dprojection = products(totals, gates[:, :, 3 * n :] * np.tanh(cells), ctx.into[4])
        return dx, dfirst, dcell, dweight, dprojection, None
