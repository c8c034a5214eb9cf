"""One layer of a transformer's encoder or decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.nn import functional
from shardwise.nn.layers.attention import MultiheadAttention
from shardwise.nn.layers.dropout import Dropout
from shardwise.nn.layers.linear import Linear
from shardwise.nn.layers.norm import LayerNorm
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["Activation", "TransformerDecoderLayer", "TransformerEncoderLayer"]

Activation: TypeAlias = str | Callable[[Tensor], Tensor]
"""``"relu"``, ``"gelu"``, a function, or a module."""


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers, each with a norm and around it a shortcut.

    Parameters
    ----------
    d_model, nhead : int
        Features, and heads that they are parted among.
    dim_feedforward : int
        Features between the two linear layers.
    dropout : float
        Of the attention's weights, between the linear layers, and before each shortcut.
    activation : str or callable
        Between the linear layers: ``"relu"``, ``"gelu"``, or a function of a tensor.
    layer_norm_eps : float
    batch_first : bool
        Inputs are (batch, sequence, features) instead of (sequence, batch, features).
    norm_first : bool
        Normalise what goes into each part (Xiong et al. 2020), instead of what comes out of its shortcut
        (Vaswani et al. 2017).
    bias : bool
        Of the linear layers and norms.
    device, dtype : optional

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> layer = nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, batch_first=True)
    >>> layer(sw.randn(2, 5, 16), is_causal=True).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        dtype = np.float32 if dtype is None else dtype
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Map a sequence to one of the same shape; masks are as for `MultiheadAttention`."""
        x = src
        if self.norm_first:
            x = x + self._attended(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._fed(self.norm2(x))
        x = self.norm1(x + self._attended(x, src_mask, src_key_padding_mask, is_causal))
        out: Tensor = self.norm2(x + self._fed(x))
        return out

    def _attended(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        out, _ = self.self_attn(x, x, x, padding, need_weights=False, attn_mask=mask, is_causal=is_causal)
        return _dropped(self.dropout1, out, self.self_attn.batch_first)

    def _fed(self, x: Tensor) -> Tensor:
        batch_first = self.self_attn.batch_first
        wide = _dropped(self.dropout, self.activation(self.linear1(x)), batch_first)
        return _dropped(self.dropout2, self.linear2(wide), batch_first)


class TransformerDecoderLayer(Module):
    """Self-attention, attention to a memory, and two linear layers, each with a norm and a shortcut.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        As for `TransformerEncoderLayer`.
    device, dtype : optional

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> layer = nn.TransformerDecoderLayer(16, 4, dim_feedforward=32, batch_first=True)
    >>> layer(sw.randn(2, 5, 16), memory=sw.randn(2, 7, 16), tgt_is_causal=True).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        dtype = np.float32 if dtype is None else dtype
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Map a sequence and the encoder's output to a sequence of the first one's shape."""
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._attended(self.norm1(x), *own)
            x = x + self._reminded(self.norm2(x), memory, *other)
            return x + self._fed(self.norm3(x))
        x = self.norm1(x + self._attended(x, *own))
        x = self.norm2(x + self._reminded(x, memory, *other))
        out: Tensor = self.norm3(x + self._fed(x))
        return out

    def _attended(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        out, _ = self.self_attn(x, x, x, padding, need_weights=False, attn_mask=mask, is_causal=is_causal)
        return _dropped(self.dropout1, out, self.self_attn.batch_first)

    def _reminded(
        self, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        out, _ = self.multihead_attn(
            x, memory, memory, padding, need_weights=False, attn_mask=mask, is_causal=is_causal
        )
        return _dropped(self.dropout2, out, self.self_attn.batch_first)

    def _fed(self, x: Tensor) -> Tensor:
        batch_first = self.self_attn.batch_first
        wide = _dropped(self.dropout, self.activation(self.linear1(x)), batch_first)
        return _dropped(self.dropout3, self.linear2(wide), batch_first)


def _dropped(dropout: Module, x: Tensor, batch_first: bool) -> Tensor:
    """Apply a dropout with the batch in front, so that its mask is that of the batch's rows."""
    turned = not batch_first and x.ndim == 3
    out: Tensor = dropout(x.transpose(0, 1) if turned else x)
    return out.transpose(0, 1) if turned else out


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    known: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}
    if isinstance(given, str):
        if given not in known:
            raise ArgumentError(f"activation must be 'relu', 'gelu' or a function of a tensor, got {given!r}")
        return known[given]
    return given
