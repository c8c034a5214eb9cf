"""Layers that tell a transformer where in its sequence an element is."""

from __future__ import annotations

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn import functional
from shardwise.nn.check import check_sizes, check_tensors
from shardwise.nn.functions.dropout import check_probability
from shardwise.nn.functions.position import apply_rotary, rotary_angles, sinusoidal_encoding
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["RotaryEmbedding", "SinusoidalEncoding"]


class RotaryEmbedding(Module):
    """Rotates pairs of features of queries and keys by their positions (Su et al. 2021, "RoFormer").

    The product of a query and a key then depends on how far they are apart. There is nothing to
    learn or save.

    Parameters
    ----------
    dim : int
        How many features are rotated, the first ones; even.
    base : float
        The longest wavelength is about ``2 pi base`` positions.
    interleaved : bool
        Pair neighbours (RoFormer, GPT-J) instead of the two halves (GPT-NeoX, Llama); see
        `functional.apply_rotary`.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> rotate = nn.RotaryEmbedding(8)
    >>> q, k = sw.randn(2, 4, 6, 8), sw.randn(2, 4, 6, 8)  # batch, heads, positions, features
    >>> rotate(q).shape
    (2, 4, 6, 8)
    """

    def __init__(self, dim: int, base: float = 10000.0, interleaved: bool = False) -> None:
        super().__init__()
        check_sizes("RotaryEmbedding", dim=dim)
        if dim % 2:
            raise ArgumentError(f"RotaryEmbedding: dim must be even, because features are paired; got {dim}")
        self.dim = dim
        self.base = base
        self.interleaved = interleaved
        self._tables: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}

    def forward(self, input: Tensor, positions: Tensor | None = None, offset: int = 0) -> Tensor:
        """Rotate (..., seq, d).

        Parameters
        ----------
        input : Tensor, shape (..., seq, d), d >= dim
        positions : Tensor of integers, shape (seq,) or (..., seq), optional
            Where each element is; ``offset, offset + 1, ...`` if not given.
        offset : int
            The position of the first element, as when earlier ones are kept in a cache.

        Returns
        -------
        Tensor, of the shape of `input`
        """
        check_tensors("RotaryEmbedding", input=input, positions=positions)
        if input.ndim < 2 or input.shape[-1] < self.dim:
            raise ShapeError(
                f"RotaryEmbedding needs an input (..., seq, d) with d at least {self.dim}, got {input.shape}"
            )
        if positions is None:
            stop = offset + input.shape[-2]
            cos, sin = (table[offset:stop] for table in self._table(input, stop))
        else:
            cos, sin = (table[positions] for table in self._table(input, int(positions.data.max()) + 1))
        return apply_rotary(input, cos, sin, self.interleaved)

    def _table(self, like: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines for at least `length` positions, kept from call to call."""
        key = (like.device, like.dtype.name)
        table = self._tables.get(key)
        if table is None or table[0].shape[0] < length:
            room = 1 << max(length - 1, 0).bit_length()  # so that a growing sequence seldom needs a new one
            table = rotary_angles(room, self.dim, self.base, like.dtype, like.device)
            self._tables[key] = table
        return table

    def extra_repr(self) -> str:
        """Show the options."""
        return f"{self.dim}, base={self.base}, interleaved={self.interleaved}"


class SinusoidalEncoding(Module):
    """Adds sines and cosines of the position at many wavelengths (Vaswani et al. 2017, section 3.5).

    Parameters
    ----------
    dim : int
        Features of the input.
    dropout : float
        Of the sum, while training.
    batch_first : bool
        Inputs are (batch, seq, dim) instead of (seq, batch, dim).
    base : float
    """

    def __init__(
        self, dim: int, dropout: float = 0.1, batch_first: bool = False, base: float = 10000.0
    ) -> None:
        super().__init__()
        check_sizes("SinusoidalEncoding", dim=dim)
        check_probability("SinusoidalEncoding", "dropout", dropout)
        self.dim = dim
        self.dropout = dropout
        self.batch_first = batch_first
        self.base = base

    def forward(self, input: Tensor) -> Tensor:
        """Map (seq, batch, dim), or (seq, dim) for one sequence, to the same shape."""
        check_tensors("SinusoidalEncoding", input=input)
        if input.ndim not in (2, 3) or input.shape[-1] != self.dim:
            lead = "(batch, seq, {0})" if self.batch_first else "(seq, batch, {0})"
            raise ShapeError(
                f"SinusoidalEncoding needs an input {lead.format(self.dim)} or (seq, {self.dim}), got "
                f"{input.shape}"
            )
        between = input.ndim == 3 and not self.batch_first
        length = input.shape[0] if between else input.shape[-2]
        table = sinusoidal_encoding(length, self.dim, self.base, input.dtype, input.device)
        added = input + (table.unsqueeze(1) if between else table)
        return functional.dropout(added, self.dropout, self.training)

    def extra_repr(self) -> str:
        """Show the options."""
        return f"{self.dim}, dropout={self.dropout}, batch_first={self.batch_first}"
