"""Recurrent layers, each as one op over the whole sequence, with backpropagation through time by hand.

Shapes: t steps, n sequences, h features of the state, g those of all gates, which lie behind each other in
PyTorch's order. The products with the inputs come in ready, as one matrix product for all steps, so that only
those with the state remain here. `seen`, of shape (t, n, 1), tells which steps a sequence has; at the others
its state stays as it is and its output is 0.

A backward that is itself recorded runs the steps again, on tensors, since what it would need of them is not
among the inputs and outputs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.recurrent.gru import gru_backward, gru_forward
from shardwise.backend.kernels.recurrent.sequence import previous, stacked, step_order, where_seen
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Gru", "Rnn", "Shapes", "gated_flops", "products"]

Shapes = tuple[tuple[int, ...], ...]


def products(left: Any, right: Any, into: Array | None = None) -> Any:
    """Return ``left.T @ right`` over all steps and sequences: the gradient of a weight."""
    rows = math.prod(left.shape[:2])
    left, right = np.reshape(left, (rows, left.shape[2])), np.reshape(right, (rows, right.shape[2]))
    return np.matmul(np.swapaxes(left, 0, 1), right, out=into)


def gated_flops(shapes: Shapes, params: dict[str, Any]) -> int:
    """Count the products with the state."""
    (steps, rows, gates), state = shapes[0], shapes[1]
    return 2 * steps * rows * gates * state[-1]


def _rnn_signature(shapes: Shapes, params: dict[str, Any]) -> str:
    seen = ",[t]n1" if len(shapes) > 3 else ""
    return f"[t]n[h],n[h],[h][h]{seen}->[t]n[h],n[h]"


class Rnn(Function):
    """``h' = tanh(x + h @ weight.T)``, or relu of it (Elman 1990)."""

    signature = _rnn_signature
    flops = gated_flops

    @staticmethod
    def forward(
        ctx: Context, x: Array, first: Array, weight: Array, seen: Array | None, relu: bool, reverse: bool
    ) -> tuple[Array, Array]:
        ctx.relu, ctx.reverse, ctx.seen = relu, reverse, seen
        states = _rnn_steps(x, first, weight, seen, relu, reverse)
        whole = stacked(states)
        out = whole if seen is None else np.where(seen, whole, 0.0)
        ctx.save(x, first, weight, whole)
        return out, states[0 if reverse else len(states) - 1].copy()

    @staticmethod
    def backward(ctx: Context, g: Array, g_last: Array) -> Gradients:
        x, first, weight, states = ctx.saved
        if states is None:
            states = stacked(_rnn_steps(x, first, weight, ctx.seen, ctx.relu, ctx.reverse))
        grads, values, into = list(g), list(states), {}
        flowing = g_last
        for t in reversed(step_order(len(grads), ctx.reverse)):
            h, total = values[t], flowing + grads[t]
            through = total * (h > 0.0) if ctx.relu else total * (1.0 - h * h)
            into[t] = where_seen(ctx.seen, t, through, 0.0)
            flowing = where_seen(ctx.seen, t, np.matmul(through, weight), flowing)
        dx = stacked(into)
        dweight = products(dx, previous(states, first, ctx.reverse), ctx.into[2]) if ctx.need[2] else None
        return dx, flowing, dweight, None


def _rnn_steps(x: Any, first: Any, weight: Any, seen: Any, relu: bool, reverse: bool) -> dict[int, Any]:
    inputs, h, across = list(x), first, np.swapaxes(weight, 0, 1)
    states: dict[int, Any] = {}
    for t in step_order(len(inputs), reverse):
        total = inputs[t] + np.matmul(h, across)
        h = states[t] = where_seen(seen, t, np.maximum(total, 0.0) if relu else np.tanh(total), h)
    return states


def _gru_signature(shapes: Shapes, params: dict[str, Any]) -> str:
    more = {1: ",[g]", 3: ",[t]n1"}
    return f"[t]n[g],n[h],[g][h]{''.join(more[len(shape)] for shape in shapes[3:])}->[t]n[h],n[h]"


class Gru(Function):
    """Gated recurrent unit (Cho et al. 2014), its reset gate behind the product with the state.

    ``r, z = sigmoid(x_rz + s_rz)``, ``n = tanh(x_n + r * s_n)``, ``h' = (1 - z) * n + z * h``, where
    ``s = h @ weight.T + bias``.
    """

    signature = _gru_signature
    flops = gated_flops

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        first: Array,
        weight: Array,
        bias: Array | None,
        seen: Array | None,
        reverse: bool,
    ) -> tuple[Array, Array]:
        ctx.reverse, ctx.seen = reverse, seen
        states, gates, news, sides = gru_forward(x, first, weight, bias, seen, reverse)
        out = states if seen is None else np.where(seen, states, 0.0)
        statistics = [states, gates, news, sides] if True in ctx.need else []
        ctx.save(x, first, weight, bias, *statistics)
        return out, states[0 if reverse else len(states) - 1].copy()

    @staticmethod
    def backward(ctx: Context, g: Array, g_last: Array) -> Gradients:
        x, first, weight, bias, states, gates, news, sides = ctx.saved
        seen, reverse = ctx.seen, ctx.reverse
        if gates is None:
            states, gates, news, sides = gru_forward(x, first, weight, bias, seen, reverse)
        dx, across, dfirst = gru_backward(g, g_last, first, weight, states, gates, news, sides, seen, reverse)
        dweight = products(across, previous(states, first, reverse), ctx.into[2]) if ctx.need[2] else None
        dbias = np.sum(across, axis=(0, 1)) if ctx.need[3] else None
        return dx, dfirst, dweight, dbias, None
