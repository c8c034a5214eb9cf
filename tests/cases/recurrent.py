"""Calls of recurrent layers, in float64, small enough for finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import shardwise as sw
from cases.operand import Case, make
from shardwise.nn.functions.recurrent import Weights, gru_layer, lstm_layer, rnn_layer
from shardwise.tensor import Tensor

__all__ = ["CASES"]

STEPS, BATCH, FEATURES, HIDDEN, PROJECTED = 2, 2, 1, 2, 1
SEEN = np.array([[True, True], [True, False]])[:, :, None]


def weights(gates: int, state: int = HIDDEN, bias: bool = False) -> tuple[Tensor, ...]:
    rows = gates * HIDDEN
    both = make(rows, FEATURES), make(rows, state, seed=1)
    return (*both, make(rows), make(rows, seed=1)) if bias else both


def rnn(relu: bool, masked: bool, reverse: bool) -> Callable[..., Any]:
    def run(x: Tensor, h: Tensor, *w: Tensor) -> Any:
        return rnn_layer(x, h, Weights(*w), sw.tensor(SEEN) if masked else None, relu, reverse)

    return run


def gru(masked: bool, reverse: bool) -> Callable[..., Any]:
    def run(x: Tensor, h: Tensor, *w: Tensor) -> Any:
        return gru_layer(x, h, Weights(*w), sw.tensor(SEEN) if masked else None, reverse)

    return run


def lstm(masked: bool, reverse: bool) -> Callable[..., Any]:
    def run(x: Tensor, h: Tensor, c: Tensor, *w: Tensor) -> Any:
        return lstm_layer(x, h, c, Weights(*w), sw.tensor(SEEN) if masked else None, reverse)

    return run


def projected(masked: bool, reverse: bool) -> Callable[..., Any]:
    def run(x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, w_hr: Tensor) -> Any:
        weights = Weights(w_ih, w_hh, weight_hr=w_hr)
        return lstm_layer(x, h, c, weights, sw.tensor(SEEN) if masked else None, reverse)

    return run


INPUT, ONE = make(STEPS, BATCH, FEATURES), make(STEPS, 1, FEATURES)
STATE, CELL = make(BATCH, HIDDEN), make(BATCH, HIDDEN, seed=1)
FIRST, INSIDE = make(1, HIDDEN), make(1, HIDDEN, seed=1)
PROJECTION = make(PROJECTED, HIDDEN)

CASES: dict[str, Case] = {
    "rnn tanh": (rnn(False, False, False), (INPUT, STATE, *weights(1, bias=True))),
    "rnn relu backwards": (rnn(True, False, True), (INPUT, STATE, *weights(1, bias=True))),
    "rnn lengths": (rnn(False, True, False), (INPUT, STATE, *weights(1))),
    "rnn lengths backwards": (rnn(False, True, True), (INPUT, STATE, *weights(1))),
    "gru": (gru(False, False), (ONE, FIRST, *weights(3, bias=True))),
    "gru backwards": (gru(False, True), (ONE, FIRST, *weights(3))),
    "gru lengths backwards": (gru(True, True), (INPUT, STATE, *weights(3))),
    "lstm": (lstm(False, False), (ONE, FIRST, INSIDE, *weights(4))),
    "lstm lengths backwards": (lstm(True, True), (INPUT, STATE, CELL, *weights(4))),
    "lstm projected": (
        projected(False, True), (ONE, make(1, PROJECTED), INSIDE, *weights(4, PROJECTED), PROJECTION),
    ),
    "lstm projected lengths": (
        projected(True, False), (INPUT, make(BATCH, PROJECTED), CELL, *weights(4, PROJECTED), PROJECTION),
    ),
    "lstm of no sequence": (
        lstm(False, False),
        (make(STEPS, 0, FEATURES), make(0, HIDDEN), make(0, HIDDEN, seed=1), *weights(4)),
    ),
}  # fmt: skip
