"""Attention with several heads and learned projections."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn import functional, init
from shardwise.nn.check import check_sizes, check_tensors
from shardwise.nn.functions.attention import attention_weights
from shardwise.nn.functions.dropout import check_probability
from shardwise.nn.layers.linear import Linear
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, cat, empty, ones, where, zeros

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads, each over its part of the features (Vaswani et al. 2017, section 3.2.2).

    Parameters
    ----------
    embed_dim, num_heads : int
        Each head has ``embed_dim // num_heads`` features.
    dropout : float
        Probability of dropping an attention weight while training.
    bias : bool
        Add biases to all projections.
    add_bias_kv : bool
        Append a learned key and value to those of every sequence.
    add_zero_attn : bool
        Append a key and a value of zeros.
    kdim, vdim : int, optional
        Features of keys and values; `embed_dim` if not given.
    batch_first : bool
        Inputs and outputs are (batch, sequence, features) instead of (sequence, batch, features).
    device, dtype : optional

    Attributes
    ----------
    in_proj_weight : Parameter, shape (3 * embed_dim, embed_dim), or None
        Projections of queries, keys and values, one below the other.
    q_proj_weight, k_proj_weight, v_proj_weight : Parameter or None
        The same apart, where `kdim` or `vdim` differs from `embed_dim`.
    in_proj_bias : Parameter, shape (3 * embed_dim,), or None
    bias_k, bias_v : Parameter, shape (1, 1, embed_dim), or None
    out_proj : Linear

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> attend = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = sw.randn(3, 5, 8)
    >>> out, weights = attend(x, x, x)
    >>> out.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None
    out_proj: Linear

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        check_sizes("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads)
        check_probability("MultiheadAttention", "dropout", dropout)
        if not num_heads or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention: embed_dim={embed_dim} does not part into num_heads={num_heads} heads"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        dtype = np.float32 if dtype is None else dtype
        make = partial(empty, dtype=dtype, device=device)
        packed = self.kdim == self.vdim == embed_dim
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if packed else None,
            "q_proj_weight": None if packed else (embed_dim, embed_dim),
            "k_proj_weight": None if packed else (embed_dim, self.kdim),
            "v_proj_weight": None if packed else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else Parameter(make(shape)))
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights for the inputs; biases become 0."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from each query to all keys.

        Parameters
        ----------
        query : Tensor, shape (q, batch, embed_dim)
            (batch, q, embed_dim) with `batch_first`, or (q, embed_dim) for one sequence.
        key, value : Tensor, shapes (k, batch, kdim) and (k, batch, vdim)
            Likewise.
        key_padding_mask : Tensor, shape (batch, k), optional
            Keys to leave out where True; numbers are added to the scores.
        need_weights : bool
            Return the attention weights too. Without them the fused attention can be used.
        attn_mask : Tensor, shape (q, k) or (batch * heads, q, k), optional
            Pairs to leave out where True; numbers are added to the scores.
        average_attn_weights : bool
            Return the mean of the weights over the heads, instead of all of them.
        is_causal : bool
            Position i sees positions up to i; `attn_mask`, if given too, must say the same.

        Returns
        -------
        output : Tensor, of the shape of `query`
        weights : Tensor, shape (batch, q, k) or (batch, heads, q, k), or None
            After dropout. A query that sees no key has weights of 0, and so an output of `out_proj`'s bias.

        Raises
        ------
        ShapeError, DTypeError
            Inputs or masks that do not fit.
        """
        check_tensors(
            "MultiheadAttention", query=query, key=key, value=value, key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
        )  # fmt: skip
        self._check_shapes(query, key, value)
        single = query.ndim == 2
        sequence = 1 if self.batch_first else 0
        q, k, v = (x.unsqueeze(1 - sequence) if single else x for x in self._projected(query, key, value))
        if self.bias_k is not None and self.bias_v is not None:
            lead = (k.shape[0], 1) if self.batch_first else (1, k.shape[1])
            k = cat([k, self.bias_k.expand(*lead, -1)], sequence)
            v = cat([v, self.bias_v.expand(*lead, -1)], sequence)
        q, k, v = self._heads(q), self._heads(k), self._heads(v)
        if self.add_zero_attn:
            none = zeros(*k.shape[:2], 1, self.head_dim, dtype=k.dtype, device=k.device)
            k, v = cat([k, none], 2), cat([v, none], 2)
        if is_causal and not need_weights and key_padding_mask is None and k.shape[2] == key.shape[sequence]:
            mask = None
        else:
            is_causal = is_causal and attn_mask is None
            mask = self._mask(
                attn_mask, key_padding_mask, q, k, is_causal, key.shape[0 if single else sequence]
            )
            is_causal = False
        weights = None
        rate = self.dropout if self.training else 0.0
        if need_weights:
            weights = attention_weights(q, k, mask, 1.0 / math.sqrt(self.head_dim))
            weights = functional.dropout(weights, rate)
            out = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights.squeeze(0) if single else weights
        else:
            out = functional.scaled_dot_product_attention(q, k, v, mask, rate, is_causal)
        out = out.permute(0, 2, 1, 3) if self.batch_first else out.permute(2, 0, 1, 3)
        return self.out_proj(out.reshape(*query.shape[:-1], self.embed_dim)), weights

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        features = self.embed_dim, self.kdim, self.vdim
        fits = query.ndim in (2, 3) and query.ndim == key.ndim == value.ndim
        fits = fits and tuple(x.shape[-1] for x in (query, key, value)) == features
        fits = fits and key.shape[:-1] == value.shape[:-1]
        batch = 0 if self.batch_first else 1
        if not fits or (query.ndim == 3 and query.shape[batch] != key.shape[batch]):
            lead = "(batch, {0}, {1})" if self.batch_first else "({0}, batch, {1})"
            q, k, v = (lead.format(n, f) for n, f in zip("qkk", features, strict=True))
            raise ShapeError(
                f"MultiheadAttention needs query {q}, key {k} and value {v}, or all without the batch; got "
                f"{query.shape}, {key.shape}, {value.shape}"
            )

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values; one product where they come from one tensor."""
        linear, bias = functional.linear, self.in_proj_bias
        if self.in_proj_weight is None:
            apart = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            biases = (None, None, None) if bias is None else bias.chunk(3)
            q, k, v = (
                linear(x, w, b)
                for x, w, b in zip((query, key, value), apart, biases, strict=True)
                if w is not None
            )
            return q, k, v
        if query is key and key is value:
            q, k, v = linear(query, self.in_proj_weight, bias).chunk(3, -1)
            return q, k, v
        parts = [self.embed_dim, 2 * self.embed_dim] if key is value else 3 * [self.embed_dim]
        weights = self.in_proj_weight.split(parts)
        shifts = [None for _ in parts] if bias is None else bias.split(parts)
        q, *rest = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, shifts, strict=False))
        k, v = rest if len(rest) == 2 else rest[0].chunk(2, -1)
        return q, k, v

    def _heads(self, x: Tensor) -> Tensor:
        """Return (batch, heads, sequence, head_dim)."""
        parted = x.reshape(*x.shape[:2], self.num_heads, self.head_dim)
        return parted.permute(0, 2, 1, 3) if self.batch_first else parted.permute(1, 2, 0, 3)

    def _mask(
        self, pairs: Tensor | None, padding: Tensor | None, q: Tensor, k: Tensor, is_causal: bool, length: int
    ) -> Tensor | None:
        """Return one mask as `scaled_dot_product_attention` wants it: True, or 0, where a key takes part."""
        batch, heads, rows = q.shape[:3]
        masks = []
        if is_causal:
            masks.append(ones(rows, length, dtype=np.bool_, device=q.device).tril())
        if pairs is not None:
            if pairs.shape not in ((rows, length), (batch * heads, rows, length)):
                raise ShapeError(
                    f"MultiheadAttention: attn_mask must have shape (q, k) = {(rows, length)} or "
                    f"(batch * heads, q, k) = {(batch * heads, rows, length)}, got {pairs.shape}"
                )
            pairs = pairs.reshape(batch, heads, rows, length) if pairs.ndim == 3 else pairs
            masks.append(_seen("attn_mask", pairs, q))
        if padding is not None:
            if padding.shape != (batch, length) and (batch > 1 or padding.shape != (length,)):
                raise ShapeError(
                    "MultiheadAttention: key_padding_mask must have shape (batch, k) = "
                    f"{(batch, length)}, got {padding.shape}"
                )
            masks.append(_seen("key_padding_mask", padding.reshape(batch, 1, 1, length), q))
        if not masks:
            return None
        if any(mask.dtype != np.bool_ for mask in masks):
            masks = [where(m, 0.0, -math.inf).to(q.dtype) if m.dtype == np.bool_ else m for m in masks]
        mask = masks[0]
        for other in masks[1:]:
            mask = mask & other if mask.dtype == np.bool_ else mask + other
        extra = k.shape[2] - length
        if extra:  # keys that were appended are seen by all
            more = zeros if mask.dtype != np.bool_ else ones
            mask = cat([mask, more(*mask.shape[:-1], extra, dtype=mask.dtype, device=mask.device)], -1)
        return mask


def _seen(name: str, mask: Tensor, like: Tensor) -> Tensor:
    """Turn a mask of pairs to leave out into one of pairs that take part; numbers stay."""
    if mask.dtype == np.bool_:
        return ~mask
    if mask.is_floating_point():
        with np.errstate(over="ignore"):  # a large number may become -inf in float16, which is what it means
            return mask.astype(like.dtype)
    raise DTypeError(
        f"MultiheadAttention: {name} must be bool (True is left out) or floating (added to the scores), not "
        f"{mask.dtype}; compare, as in mask != 0"
    )
