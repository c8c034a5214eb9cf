"""One layer of a recurrent network in one direction, over a whole sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

from shardwise.nn.functions.linear import linear
from shardwise.tensor import Tensor
from shardwise.tensor.ops import lstm, recurrent

__all__ = ["Weights", "gru_layer", "lstm_layer", "rnn_layer"]


class Weights(NamedTuple):
    """What one layer learns: gates lie one below the other, in PyTorch's order."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None
    weight_hr: Tensor | None = None


def rnn_layer(
    input: Tensor, h: Tensor, weights: Weights, seen: Tensor | None, relu: bool, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Return ``h' = tanh(input @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)``, step by step.

    Parameters
    ----------
    input : Tensor, shape (steps, batch, features)
    h : Tensor, shape (batch, hidden)
        The state before the first step.
    weights : Weights
    seen : Tensor of bool, shape (steps, batch, 1), optional
        Which steps each sequence has.
    relu : bool
        Take relu instead of tanh.
    reverse : bool
        Begin with the last step.

    Returns
    -------
    output : Tensor, shape (steps, batch, hidden)
    h : Tensor, shape (batch, hidden)
        The state behind the last step.
    """
    gates = linear(input, weights.weight_ih, _sum(weights.bias_ih, weights.bias_hh))
    out: Any = recurrent.Rnn.apply(gates, h, weights.weight_hh, seen, relu=relu, reverse=reverse)
    return out[0], out[1]


def gru_layer(
    input: Tensor, h: Tensor, weights: Weights, seen: Tensor | None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Return outputs and last state of a gated recurrent unit; see `rnn_layer`."""
    gates = linear(input, weights.weight_ih, weights.bias_ih)
    out: Any = recurrent.Gru.apply(gates, h, weights.weight_hh, weights.bias_hh, seen, reverse=reverse)
    return out[0], out[1]


def lstm_layer(
    input: Tensor, h: Tensor, c: Tensor, weights: Weights, seen: Tensor | None, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return outputs, last state and last cell of a long short-term memory; see `rnn_layer`."""
    gates = linear(input, weights.weight_ih, _sum(weights.bias_ih, weights.bias_hh))
    out: Any = lstm.Lstm.apply(gates, h, c, weights.weight_hh, weights.weight_hr, seen, reverse=reverse)
    return out[0], out[1], out[2]


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b
