"""The steps of a gated recurrent unit, forward and backward through time.

Shapes: t steps, n sequences, h features of the state; the gates r, z and the new value n lie behind each
other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.pointwise.pointwise import WORTH_FUSING
from shardwise.backend.kernels.recurrent.sequence import previous, stacked, step_order, where_seen

__all__ = ["gru_backward", "gru_forward"]

_FUSED = "shardwise.backend.kernels.recurrent.gru_cpu"
_CUDA = "shardwise.backend.kernels.recurrent.recurrent_cuda"


def _gru_forward(
    x: Array, first: Array, weight: Array, bias: Array | None, seen: Array | None, reverse: bool
) -> tuple[Array, Array, Array, Array]:
    """What a gated recurrent unit computes at all steps.

    ``r, z = sigmoid(x_rz + s_rz)``, ``n = tanh(x_n + r * s_n)``, ``h' = (1 - z) * n + z * h``, where
    ``s = h @ weight.T + bias``.

    Parameters
    ----------
    x : floating array, shape (t, n, 3h)
        What the inputs add.
    first : array, shape (n, h)
        The state before the first step.
    weight : array, shape (3h, h)
    bias : array, shape (3h,), or None
    seen : array of bool, shape (t, n, 1), or None
        At the steps that a sequence does not have, its state stays as it is.
    reverse : bool
        Begin with the last step.

    Returns
    -------
    states : array, shape (t, n, h)
    gates : array, shape (t, n, 2h)
        r and z.
    news : array, shape (t, n, h)
        n.
    sides : array, shape (t, n, h)
        s_n.
    """
    inputs, h, across = list(x), first, np.swapaxes(weight, 0, 1)
    n = first.shape[-1]
    states: dict[int, Any] = {}
    gates: dict[int, Any] = {}
    news: dict[int, Any] = {}
    sides: dict[int, Any] = {}
    for t in step_order(len(inputs), reverse):
        side = np.matmul(h, across)
        if bias is not None:
            side = side + bias
        # sigmoid(x) is tanh(x / 2) / 2 + 1 / 2, which does not overflow.
        gates[t] = np.tanh((inputs[t][:, : 2 * n] + side[:, : 2 * n]) * 0.5) * 0.5 + 0.5
        sides[t] = side[:, 2 * n :]
        news[t] = np.tanh(inputs[t][:, 2 * n :] + gates[t][:, :n] * sides[t])
        h = states[t] = where_seen(seen, t, news[t] + gates[t][:, n:] * (h - news[t]), h)
    return stacked(states), stacked(gates), stacked(news), stacked(sides)


def _gru_backward(
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
    """The gradients of the inputs, of what the states add to them, and of the first state.

    Parameters
    ----------
    g : array, shape (t, n, h)
        The gradient of the states at all steps.
    g_last : array, shape (n, h)
        That of the state behind the last step.
    first, weight, seen, reverse
        As in the forward.
    states, gates, news, sides : array
        From the forward.

    Returns
    -------
    dx, dside : array, shape (t, n, 3h)
    dfirst : array, shape (n, h)
    """
    grads, olds = list(g), list(previous(states, first, reverse))
    gate_list, new_list, side_list = list(gates), list(news), list(sides)
    n = first.shape[-1]
    into: dict[int, Any] = {}
    aside: dict[int, Any] = {}
    flowing = g_last
    for t in reversed(step_order(len(grads), reverse)):
        total, new = flowing + grads[t], new_list[t]
        reset, keep = gate_list[t][:, :n], gate_list[t][:, n:]
        d_new = total * (1.0 - keep) * (1.0 - new * new)
        d_keep = total * (olds[t] - new) * keep * (1.0 - keep)
        d_reset = d_new * side_list[t] * reset * (1.0 - reset)
        into[t] = where_seen(seen, t, np.concatenate([d_reset, d_keep, d_new], axis=1), 0.0)
        aside[t] = where_seen(seen, t, np.concatenate([d_reset, d_keep, d_new * reset], axis=1), 0.0)
        flowing = where_seen(seen, t, np.matmul(aside[t], weight) + total * keep, flowing)
    return stacked(into), stacked(aside), flowing


gru_forward = Kernel(
    _gru_forward,
    f"{_FUSED}:gru_forward",
    arrays=5,
    integer="seen",
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:gru_forward",
)
gru_backward = Kernel(
    _gru_backward,
    f"{_FUSED}:gru_backward",
    arrays=9,
    integer="seen",
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:gru_backward",
)
