"""The steps of a long short-term memory, forward and backward through time.

Shapes: t steps, n sequences, h features of the cell, p those of the state, which is the cell's output
projected, or p = h without projection; the gates i, f, g, o lie behind each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.pointwise.pointwise import WORTH_FUSING
from shardwise.backend.kernels.recurrent.sequence import previous, stacked, step_order, where_seen

__all__ = ["lstm_backward", "lstm_forward"]

_FUSED = "shardwise.backend.kernels.recurrent.lstm_cpu"
_CUDA = "shardwise.backend.kernels.recurrent.recurrent_cuda"


def _lstm_forward(
    x: Array,
    first: Array,
    cell: Array,
    weight: Array,
    projection: Array | None,
    seen: Array | None,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    """States, gates and cells at all steps.

    ``c' = f * c + i * g``, ``h' = o * tanh(c')`` with ``i, f, o = sigmoid(x_ifo + s_ifo)``,
    ``g = tanh(x_g + s_g)``, where ``s = h @ weight.T``. With a projection the state is
    ``h' @ projection.T``.

    Parameters
    ----------
    x : floating array, shape (t, n, 4h)
        What the inputs add to the gates.
    first : array, shape (n, p)
        The state before the first step.
    cell : array, shape (n, h)
        The cell before it.
    weight : array, shape (4h, p)
    projection : array, shape (p, h), or None
    seen : array of bool, shape (t, n, 1), or None
        At the steps that a sequence does not have, its state and cell stay as they are.
    reverse : bool
        Begin with the last step.

    Returns
    -------
    states : array, shape (t, n, p)
    gates : array, shape (t, n, 4h)
    cells : array, shape (t, n, h)
        In the order of the sequence.
    """
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
    return stacked(states), stacked(gates), stacked(cells)


def _lstm_backward(
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
    """The gradients of the inputs, of the first state and cell, and what reached each state.

    Parameters
    ----------
    g : array, shape (t, n, p)
        The gradient of the states at all steps.
    g_last, g_cell : array, shape (n, p) and (n, h)
        That of the state and the cell behind the last step.
    cell, weight, projection, seen, reverse
        As in the forward.
    gates, cells : array
        From the forward.

    Returns
    -------
    dx : array, shape (t, n, 4h)
    dfirst : array, shape (n, p)
    dcell : array, shape (n, h)
    totals : array, shape (t, n, p)
        The whole gradient of each step's state; 0 at steps that a sequence does not have.
    """
    grads, gate_list, old_cells = list(g), list(gates), list(previous(cells, cell, reverse))
    squashed = list(np.tanh(cells))
    n = cell.shape[-1]
    into: dict[int, Any] = {}
    totals: dict[int, Any] = {}
    flowing, flowing_cell = g_last, g_cell
    for t in reversed(step_order(len(grads), reverse)):
        total = totals[t] = where_seen(seen, t, flowing + grads[t], 0.0)
        i, f, new, o = (gate_list[t][:, k * n : (k + 1) * n] for k in range(4))
        inner = total if projection is None else np.matmul(total, projection)
        d_cell = flowing_cell + inner * o * (1.0 - squashed[t] * squashed[t])
        d_i, d_f = d_cell * new * i * (1.0 - i), d_cell * old_cells[t] * f * (1.0 - f)
        d_new, d_o = d_cell * i * (1.0 - new * new), inner * squashed[t] * o * (1.0 - o)
        into[t] = where_seen(seen, t, np.concatenate([d_i, d_f, d_new, d_o], axis=1), 0.0)
        flowing = where_seen(seen, t, np.matmul(into[t], weight), flowing)
        flowing_cell = where_seen(seen, t, d_cell * f, flowing_cell)
    return stacked(into), flowing, flowing_cell, stacked(totals)


lstm_forward = Kernel(
    _lstm_forward,
    f"{_FUSED}:lstm_forward",
    arrays=6,
    integer="seen",
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:lstm_forward",
)
lstm_backward = Kernel(
    _lstm_backward,
    f"{_FUSED}:lstm_backward",
    arrays=9,
    integer="seen",
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:lstm_backward",
)
