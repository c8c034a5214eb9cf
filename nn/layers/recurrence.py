"""The walk over a sequence that recurrent layers share: layers, directions, first and last states."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn import functional, init
from shardwise.nn.check import check_dtypes, check_sizes, check_tensors
from shardwise.nn.functions.dropout import check_probability
from shardwise.nn.functions.recurrent import Weights
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.nn.sequence import PackedSequence, packed_like, padded_steps
from shardwise.tensor import Tensor, cat, empty, stack, zeros

__all__ = ["Recurrence", "States"]

States: TypeAlias = tuple[Tensor, ...]


class Recurrence(Module):
    """Weights by layer and direction, and the walk over them. A subclass defines `_layer`."""

    def __init__(
        self,
        gates: int,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int,
        device: str | None,
        dtype: DTypeLike | None,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        check_sizes(
            kind, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, proj_size=proj_size
        )
        check_probability(kind, "dropout", dropout)
        if not hidden_size or not num_layers or proj_size >= hidden_size:
            raise ArgumentError(
                f"{kind} needs hidden_size and num_layers of at least 1, and a proj_size below hidden_size; "
                f"got {hidden_size}, {num_layers} and {proj_size}"
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._state_size = proj_size or hidden_size
        dtype = np.float32 if dtype is None else dtype
        for layer, suffix, _ in self._levels():
            features = input_size if layer == 0 else self._state_size * (1 + bidirectional)
            shapes: dict[str, tuple[int, ...] | None] = {
                "weight_ih": (gates * hidden_size, features),
                "weight_hh": (gates * hidden_size, self._state_size),
                "bias_ih": (gates * hidden_size,) if bias else None,
                "bias_hh": (gates * hidden_size,) if bias else None,
                "weight_hr": (proj_size, hidden_size) if proj_size else None,
            }
            for name, shape in shapes.items():
                if shape is not None:
                    parameter = Parameter(empty(shape, dtype=dtype, device=device))
                    self.register_parameter(f"{name}{suffix}", parameter)
        self.reset_parameters()

    def _levels(self) -> list[tuple[int, str, bool]]:
        """Return layer, suffix of the names, and whether it goes backwards, in the order of the states."""
        directions = (False, True) if self.bidirectional else (False,)
        return [
            (layer, f"_l{layer}{'_reverse' if reverse else ''}", reverse)
            for layer in range(self.num_layers)
            for reverse in directions
        ]

    def _weights(self, suffix: str) -> Weights:
        return Weights(*(self._parameters.get(f"{name}{suffix}") for name in Weights._fields))  # type: ignore[arg-type]

    @property
    def mode(self) -> str:
        """The kind of network, by PyTorch's names."""
        return type(self).__name__

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[w for w in self._weights(suffix) if w is not None] for _, suffix, _ in self._levels()]  # type: ignore[misc]

    def reset_parameters(self) -> None:
        """Draw new weights, uniform in ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing; there for PyTorch's sake, which must lay weights out for its GPU library."""

    def _layer(
        self, input: Tensor, states: States, weights: Weights, seen: Tensor | None, reverse: bool
    ) -> tuple[Tensor, ...]:
        """Return the outputs of one layer in one direction, and its last states."""
        raise NotImplementedError(f"{type(self).__name__} does not define _layer()")

    def _state_sizes(self) -> tuple[int, ...]:
        return (self._state_size,)

    def _go_through(
        self, input: Tensor | PackedSequence, hx: States | None
    ) -> tuple[Tensor | PackedSequence, States]:
        packed = input if isinstance(input, PackedSequence) else None
        single, seen = False, None
        if packed is not None:
            x, shown = padded_steps(packed, packed.batch_sizes.shape[0])
            seen = None if bool(np.all(packed.lengths == x.shape[0])) else shown.unsqueeze(-1)
        else:
            check_tensors(type(self).__name__, input=input)
            assert isinstance(input, Tensor)
            single = input.ndim == 2
            x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        self._check_input(x, input)
        states = self._first_states(x, hx, single)
        out, lasts = self._through_layers(x, states, seen)
        if single:
            out, lasts = out.squeeze(1), tuple(last.squeeze(1) for last in lasts)
        elif packed is not None:
            return packed_like(packed, out), lasts
        elif self.batch_first:
            out = out.transpose(0, 1)
        return out, lasts

    def _through_layers(self, x: Tensor, states: States, seen: Tensor | None) -> tuple[Tensor, States]:
        outs: list[Tensor] = []
        lasts: list[tuple[Tensor, ...]] = []
        for place, (layer, suffix, reverse) in enumerate(self._levels()):
            firsts = tuple(state[place] for state in states)
            out, *last = self._layer(x, firsts, self._weights(suffix), seen, reverse)
            outs.append(out)
            lasts.append(tuple(last))
            if len(outs) == 1 + self.bidirectional:
                x = cat(outs, -1) if self.bidirectional else out
                outs.clear()
                if layer + 1 < self.num_layers:
                    # the batch first, so that masks are those of its rows
                    x = functional.dropout(x.transpose(0, 1), self.dropout, self.training).transpose(0, 1)
        return x, tuple(stack(parts) for parts in zip(*lasts, strict=True))

    def _check_input(self, x: Tensor, given: Tensor | PackedSequence) -> None:
        kind = type(self).__name__
        if x.ndim != 3 or x.shape[-1] != self.input_size or not x.shape[0]:
            shape = given.data.shape if isinstance(given, PackedSequence) else given.shape
            lead = "(batch, steps, {0})" if self.batch_first else "(steps, batch, {0})"
            raise ShapeError(
                f"{kind} needs an input of shape {lead.format(self.input_size)}, (steps, {self.input_size}) "
                f"or a PackedSequence, of at least one step; got shape {shape}"
            )
        check_dtypes(kind, input=x, weight_ih_l0=self.get_parameter("weight_ih_l0"))

    def _first_states(self, x: Tensor, hx: States | None, single: bool) -> States:
        rows, batch = self.num_layers * (1 + self.bidirectional), x.shape[1]
        shapes = [(rows, batch, size) for size in self._state_sizes()]
        if hx is None:
            return tuple(zeros(shape, dtype=x.dtype, device=x.device) for shape in shapes)
        wanted = [(rows, size) if single else (rows, batch, size) for _, _, size in shapes]
        got = [getattr(state, "shape", type(state).__name__) for state in hx]
        if got != wanted:
            raise ShapeError(
                f"{type(self).__name__}: the states must have shapes {', '.join(map(str, wanted))}, (layers "
                f"and directions, {'' if single else 'batch, '}features); got {', '.join(map(str, got))}"
            )
        check_dtypes(type(self).__name__, input=x, **{f"state{i}": state for i, state in enumerate(hx)})
        return tuple(state.unsqueeze(1) for state in hx) if single else hx

    def extra_repr(self) -> str:
        """Show the sizes, and the options that are not as usual."""
        shown = [str(self.input_size), str(self.hidden_size)]
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        for name, value in (*usual.items(), ("bidirectional", False)):
            if getattr(self, name) != value:
                shown.append(f"{name}={getattr(self, name)}")
        return ", ".join(shown)
