"""Recurrent networks of several layers, in one or both directions."""

from __future__ import annotations

from typing import Literal, TypeAlias

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.nn.functions.recurrent import Weights, gru_layer, lstm_layer, rnn_layer
from shardwise.nn.layers.recurrence import Recurrence, States
from shardwise.nn.sequence import PackedSequence
from shardwise.tensor import Tensor

__all__ = ["GRU", "LSTM", "RNN"]

Nonlinearity: TypeAlias = Literal["tanh", "relu"]


class RNN(Recurrence):
    """A recurrent network: ``h' = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)`` (Elman 1990).

    Parameters
    ----------
    input_size, hidden_size : int
    num_layers : int
        Layers, of which each takes the outputs of the one before it.
    nonlinearity : {"tanh", "relu"}
    bias : bool
    batch_first : bool
        Inputs and outputs are (batch, steps, features) instead of (steps, batch, features).
    dropout : float
        Of the outputs of all layers but the last, while training.
    bidirectional : bool
        Go through the sequence in both directions; outputs have twice the features.
    device, dtype : optional

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Parameter
        Of the first layer; ``_reverse`` is put behind the names of the other direction.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Nonlinearity = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"RNN: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(
            1, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0,
            device, dtype,
        )  # fmt: skip
        self.nonlinearity: Nonlinearity = nonlinearity

    @property
    def mode(self) -> str:
        """``"RNN_TANH"`` or ``"RNN_RELU"``."""
        return f"RNN_{self.nonlinearity.upper()}"

    def _layer(
        self, input: Tensor, states: States, weights: Weights, seen: Tensor | None, reverse: bool
    ) -> tuple[Tensor, ...]:
        return rnn_layer(input, states[0], weights, seen, self.nonlinearity == "relu", reverse)

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Go through sequences.

        Parameters
        ----------
        input : Tensor, shape (steps, batch, input_size), or PackedSequence
            (batch, steps, input_size) with `batch_first`; (steps, input_size) for one sequence.
        hx : Tensor, shape (num_layers * directions, batch, hidden_size), optional
            The states to begin with; 0 if not given.

        Returns
        -------
        output : Tensor, shape (steps, batch, directions * hidden_size), or PackedSequence
            The states of the last layer at each step.
        h_n : Tensor, shape (num_layers * directions, batch, hidden_size)
            The last state of each layer and direction.
        """
        out, (h,) = self._go_through(input, None if hx is None else (hx,))
        return out, h


class GRU(Recurrence):
    """Gated recurrent units (Cho et al. 2014), the reset gate behind the product with the state.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        As for `RNN`.
    device, dtype : optional

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Parameter
        Of the first layer: of the reset gate, the update gate and the new state, one below the other.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> out, h = nn.GRU(3, 4, bidirectional=True)(sw.randn(5, 2, 3))
    >>> out.shape, h.shape
    ((5, 2, 8), (2, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            3, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0,
            device, dtype,
        )  # fmt: skip

    def _layer(
        self, input: Tensor, states: States, weights: Weights, seen: Tensor | None, reverse: bool
    ) -> tuple[Tensor, ...]:
        return gru_layer(input, states[0], weights, seen, reverse)

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Go through sequences; see `RNN.forward`."""
        out, (h,) = self._go_through(input, None if hx is None else (hx,))
        return out, h


class LSTM(Recurrence):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), perhaps projected (Sak et al. 2014).

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        As for `RNN`.
    proj_size : int
        Features of the state, if it shall have fewer than the cell; 0 for no projection.
    device, dtype : optional

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Parameter
        Of the first layer: of the input gate, the forget gate, the new values and the output gate.
    weight_hr_l0 : Parameter
        The projection, if there is one.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> out, (h, c) = nn.LSTM(3, 4, proj_size=2)(sw.randn(5, 2, 3))
    >>> out.shape, h.shape, c.shape
    ((5, 2, 2), (1, 2, 2), (1, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            4, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
            device, dtype,
        )  # fmt: skip

    def _state_sizes(self) -> tuple[int, ...]:
        return (self._state_size, self.hidden_size)

    def _layer(
        self, input: Tensor, states: States, weights: Weights, seen: Tensor | None, reverse: bool
    ) -> tuple[Tensor, ...]:
        return lstm_layer(input, states[0], states[1], weights, seen, reverse)

    def forward(
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | PackedSequence, tuple[Tensor, Tensor]]:
        """Go through sequences.

        Parameters
        ----------
        input : Tensor, shape (steps, batch, input_size), or PackedSequence
            (batch, steps, input_size) with `batch_first`; (steps, input_size) for one sequence.
        hx : (Tensor, Tensor), optional
            The states, shape (num_layers * directions, batch, state), and the cells, with `hidden_size`
            features, to begin with; 0 if not given.

        Returns
        -------
        output : Tensor, shape (steps, batch, directions * state), or PackedSequence
        (h_n, c_n) : (Tensor, Tensor)
            The last state and cell of each layer and direction.
        """
        if hx is not None and not (isinstance(hx, (tuple, list)) and len(hx) == 2):
            raise DTypeError(f"LSTM: hx must be a pair of tensors (h, c), not {type(hx).__name__}")
        out, (h, c) = self._go_through(input, None if hx is None else tuple(hx))
        return out, (h, c)
