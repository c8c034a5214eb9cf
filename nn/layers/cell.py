"""One step of a recurrent network."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn import init
from shardwise.nn.check import check_dtypes, check_sizes, check_tensors
from shardwise.nn.functions.recurrent import Weights, gru_layer, lstm_layer, rnn_layer
from shardwise.nn.layers.recurrent import Nonlinearity
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, empty, zeros

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


class _Cell(Module):
    """The weights of one step."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        gates: int,
        input_size: int,
        hidden_size: int,
        bias: bool,
        device: str | None,
        dtype: DTypeLike | None,
    ) -> None:
        super().__init__()
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        dtype = np.float32 if dtype is None else dtype
        rows = gates * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, dtype=dtype, device=device))
        self.weight_hh = Parameter(empty(rows, hidden_size, dtype=dtype, device=device))
        for name in ("bias_ih", "bias_hh"):
            shift = Parameter(empty(rows, dtype=dtype, device=device)) if bias else None
            self.register_parameter(name, shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, uniform in ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _weights(self) -> Weights:
        return Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def _as_steps(self, input: Tensor, states: tuple[Tensor, ...] | None, count: int) -> tuple[Tensor, ...]:
        """Return the input as a sequence of one step, and the states, with a batch."""
        kind = type(self).__name__
        check_tensors(kind, input=input)
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{kind} needs an input of shape (batch, {self.input_size}) or ({self.input_size},), got "
                f"{input.shape}"
            )
        wanted = (*input.shape[:-1], self.hidden_size)
        if states is None:
            states = (zeros(wanted, dtype=input.dtype, device=input.device),) * count
        for state in states:
            check_tensors(kind, hx=state)
            if state.shape != wanted:
                raise ShapeError(f"{kind}: states must have shape {wanted}, got {state.shape}")
            check_dtypes(kind, input=input, hx=state)
        if input.ndim == 1:
            return (input.reshape(1, 1, -1), *(state.unsqueeze(0) for state in states))
        return (input.unsqueeze(0), *states)

    def extra_repr(self) -> str:
        """Show the sizes, and the options that are not as usual."""
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias else ', bias=False'}"


class RNNCell(_Cell):
    """One step of `RNN`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    nonlinearity : {"tanh", "relu"}
    device, dtype : optional
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Nonlinearity = "tanh",
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"RNNCell: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(1, input_size, hidden_size, bias, device, dtype)
        self.nonlinearity: Nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Map (batch, input_size) and the state (batch, hidden_size) to the next state."""
        x, h = self._as_steps(input, None if hx is None else (hx,), 1)
        last = rnn_layer(x, h, self._weights(), None, self.nonlinearity == "relu")[1]
        return last.reshape(*input.shape[:-1], self.hidden_size)

    def extra_repr(self) -> str:
        """Show the sizes, and the options that are not as usual."""
        kind = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + kind


class GRUCell(_Cell):
    """One step of `GRU`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    device, dtype : optional
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(3, input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Map (batch, input_size) and the state (batch, hidden_size) to the next state."""
        x, h = self._as_steps(input, None if hx is None else (hx,), 1)
        return gru_layer(x, h, self._weights(), None)[1].reshape(*input.shape[:-1], self.hidden_size)


class LSTMCell(_Cell):
    """One step of `LSTM`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    device, dtype : optional
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(4, input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Map (batch, input_size) and a pair of state and cell, (batch, hidden_size), to the next pair."""
        x, h, c = self._as_steps(input, hx, 2)
        _, h, c = lstm_layer(x, h, c, self._weights(), None)
        shape = (*input.shape[:-1], self.hidden_size)
        return h.reshape(shape), c.reshape(shape)
