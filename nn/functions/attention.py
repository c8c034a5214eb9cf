"""Scaled dot-product attention, with masks, dropout and grouped heads."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn.check import check_reals, check_tensors
from shardwise.nn.functions.dropout import check_probability
from shardwise.tensor import Tensor, next_draw, where
from shardwise.tensor.ops import attention

__all__ = ["attention_weights", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return ``softmax(scale * query @ key.T + mask) @ value``.

    Parameters
    ----------
    query : Tensor, shape (..., q, d)
    key : Tensor, shape (..., k, d)
    value : Tensor, shape (..., k, e)
        The leading dims of all three broadcast.
    attn_mask : Tensor, optional
        Broadcastable to (..., q, k): booleans (True takes part), or numbers of float32 or the dtype of
        `query` that are added, of which ``-inf`` takes no part. A query for which no key takes part gets
        zeros, and no gradient.
    dropout_p : float
        Probability of dropping an attention weight; applied as given, training or not. What is dropped
        depends on the weight's place in the global batch, as for `dropout`.
    is_causal : bool
        Position i sees positions up to i.
    scale : float, optional
        ``1 / sqrt(d)`` if not given.
    enable_gqa : bool
        Grouped queries: key and value may have fewer heads (dim -3) than query, each of which serves as
        many heads of the query in a row (Ainslie et al. 2023).

    Returns
    -------
    Tensor, shape (..., q, e)

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes or dtypes that do not fit together; both a mask and `is_causal`; no probability.

    Notes
    -----
    On the CPU scores exist only for a few queries, keys and heads at a time: beside its result, which it
    keeps with two numbers a query, attention takes memory that grows with the number of keys, and not
    with that of scores. The backward computes them again. Keys that `is_causal` hides from all queries of
    a block are skipped, so that long sequences take about half of the time.

    Examples
    --------
    >>> import shardwise as sw
    >>> q, k, v = sw.randn(2, 8, 5, 4), sw.randn(2, 2, 5, 4), sw.randn(2, 2, 5, 4)
    >>> scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).shape
    (2, 8, 5, 4)
    """
    check_tensors("attention", query=query, key=key, value=value, attn_mask=attn_mask)
    shapes = query.shape, key.shape, value.shape
    if min(map(len, shapes)) < 2 or shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        raise ShapeError(
            "attention needs query (..., q, d), key (..., k, d), value (..., k, e); "
            f"got {shapes[0]}, {shapes[1]}, {shapes[2]}"
        )
    check_reals("attention", query=query, key=key, value=value)
    check_probability("attention", "dropout_p", dropout_p)
    if attn_mask is not None and is_causal:
        raise ArgumentError(
            "attention: give attn_mask or is_causal, not both; a causal mask is ones(q, k).tril() != 0"
        )
    scale = 1.0 / math.sqrt(max(shapes[0][-1], 1)) if scale is None else scale
    heads = query.shape[-3] if enable_gqa and query.ndim > 2 else 0
    groups = _groups(query, key, value) if enable_gqa else 1
    lead = _lead(query, key, value, groups)
    scores = (*lead, shapes[0][-2], shapes[1][-2])
    if attn_mask is not None:
        attn_mask = _checked_mask(attn_mask, scores, query)
    if groups > 1:  # the heads that share a key get a dim of their own, along which keys broadcast
        parted = (*query.shape[:-3], heads // groups, groups, *query.shape[-2:])
        query, key, value = query.reshape(parted), key.unsqueeze(-3), value.unsqueeze(-3)
        attn_mask = _parted(attn_mask, heads // groups, groups)
    draw = next_draw() if dropout_p > 0.0 else None
    out = attention.Attention.apply(
        query,
        key,
        value,
        attn_mask,
        scale=float(scale),
        causal=is_causal,
        p=float(dropout_p),
        seed=draw.seed if draw else 0,
        stream=draw.stream if draw else 0,
        offset=draw.offset(scores) if draw else 0,
    )
    return out.reshape(*lead, *out.shape[-2:]) if groups > 1 else out


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Return by how much each query counts each key: numbers that add up to 1, or zeros without any key.

    Parameters
    ----------
    query : Tensor, shape (..., q, d)
    key : Tensor, shape (..., k, d)
    mask : Tensor, broadcastable to (..., q, k), optional
        As for `scaled_dot_product_attention`.
    scale : float

    Returns
    -------
    Tensor, shape (..., q, k)
    """
    scores = (query * scale) @ key.transpose(-1, -2)
    if mask is None:
        return scores.softmax(-1) if key.shape[-2] else scores
    if mask.dtype == np.bool_:
        seen = mask
    else:
        scores = scores + mask
        seen = mask.detach() != -math.inf
    if not key.shape[-2]:
        return scores
    # not -inf: the softmax of a row without any key would be NaN, and so would its gradient
    hidden = where(seen, scores, _lowest(scores))
    return where(seen, hidden.softmax(-1), 0.0)


def _groups(query: Tensor, key: Tensor, value: Tensor) -> int:
    """Return how many heads of the query share one of the key."""
    heads = [x.shape[-3] if x.ndim > 2 else 0 for x in (query, key, value)]
    if 0 in heads or heads[1] != heads[2] or heads[0] % heads[1]:
        raise ShapeError(
            "attention with enable_gqa needs query (..., heads, q, d), key and value (..., fewer, k, d), "
            f"heads being a multiple of fewer; got {query.shape}, {key.shape}, {value.shape}"
        )
    return heads[0] // heads[1]


def _lead(query: Tensor, key: Tensor, value: Tensor, groups: int) -> tuple[int, ...]:
    """Return the leading dims of the result."""
    leads = [x.shape[:-2] for x in (query, key, value)]
    if groups > 1:  # keys serve several heads, as if they were there that often
        leads[1:] = [(*lead[:-1], lead[-1] * groups) for lead in leads[1:]]
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        raise ShapeError(
            "attention: the leading dims of query, key and value do not broadcast: got "
            f"{query.shape}, {key.shape}, {value.shape}" + ("" if groups > 1 else
            "; key and value with fewer heads need enable_gqa=True")
        ) from None  # fmt: skip


def _parted(mask: Tensor | None, heads: int, groups: int) -> Tensor | None:
    """Give a mask the dim of the heads that share a key."""
    if mask is None or mask.ndim < 3:
        return mask
    if mask.shape[-3] == 1:
        return mask.unsqueeze(-3)
    return mask.reshape(*mask.shape[:-3], heads, groups, *mask.shape[-2:])


def _checked_mask(mask: Tensor, shape: tuple[int, ...], query: Tensor) -> Tensor:
    """Return a mask that fits scores of this shape."""
    fits = mask.ndim <= len(shape) and all(
        n in (1, m) for n, m in zip(mask.shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(
            f"attention: attn_mask of shape {mask.shape} does not broadcast to the scores (..., q, k) "
            f"of shape {shape}"
        )
    if mask.dtype in (np.dtype(np.bool_), query.dtype):
        return mask
    if mask.dtype != np.float32:
        raise DTypeError(
            f"attention: attn_mask must be bool (True takes part), float32 or {query.dtype} (added to the "
            f"scores), not {mask.dtype}; compare, as in mask != 0, or cast with astype()"
        )
    return mask.astype(query.dtype)


def _lowest(scores: Tensor) -> float:
    """Return a finite number that is below all scores."""
    return float(np.finfo(scores.dtype).min) if scores.dtype.kind == "f" else -3e38  # bfloat16
