"""Scaled dot-product attention, with masks and dropout."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.nn.functions.dropout import check_probability, dropout
from shardwise.tensor import Tensor, as_tensor
from shardwise.tensor.ops import arithmetic, attention

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return ``softmax(scale * query @ key.T + mask) @ value``.

    Parameters
    ----------
    query : Tensor, shape (..., q, d)
    key : Tensor, shape (..., k, d)
    value : Tensor, shape (..., k, e)
    attn_mask : Tensor, optional
        Broadcastable to (..., q, k): booleans (True takes part), or numbers that are added. A query
        for which no key takes part gets zeros.
    dropout_p : float
        Probability of dropping an attention weight; applied as given, training or not.
    is_causal : bool
        Position i sees positions up to i.
    scale : float, optional
        ``1 / sqrt(d)`` if not given.

    Returns
    -------
    Tensor, shape (..., q, e)

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes or dtypes that do not fit together; both a mask and `is_causal`; no probability.
    """
    check_tensors("attention", query=query, key=key, value=value, attn_mask=attn_mask)
    shapes = query.shape, key.shape, value.shape
    if min(map(len, shapes)) < 2 or shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        raise ShapeError(
            "attention needs query (..., q, d), key (..., k, d), value (..., k, e); "
            f"got {shapes[0]}, {shapes[1]}, {shapes[2]}"
        )
    check_dtypes("attention", query=query, key=key, value=value)
    check_probability("attention", "dropout_p", dropout_p)
    if attn_mask is not None and is_causal:
        raise ArgumentError(
            "attention: give attn_mask or is_causal, not both; a causal mask is ones(q, k).tril() != 0"
        )
    scale = 1.0 / math.sqrt(shapes[0][-1]) if scale is None else scale
    if attn_mask is None and dropout_p == 0.0:
        return attention.Attention.apply(query, key, value, scale=scale, causal=is_causal)
    scores = (query * scale) @ key.transpose(-1, -2)
    if is_causal:
        attn_mask = as_tensor(np.tri(*scores.shape[-2:], dtype=np.bool_), device=scores.device)
    if attn_mask is None:
        weights = scores.softmax(-1)
    else:
        _check_mask(attn_mask, scores)
        if attn_mask.dtype == np.bool_:
            # not -inf: the softmax of a row without any key would be NaN, and so would its gradient
            hidden = arithmetic.Where.apply(attn_mask, scores, _lowest(scores))
            weights = arithmetic.Where.apply(attn_mask, hidden.softmax(-1), 0.0)
        else:
            weights = (scores + attn_mask).softmax(-1)
    return dropout(weights, dropout_p) @ value


def _check_mask(mask: Tensor, scores: Tensor) -> None:
    fits = mask.ndim <= scores.ndim and all(
        n in (1, m) for n, m in zip(mask.shape[::-1], scores.shape[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(
            f"attention: attn_mask of shape {mask.shape} does not broadcast to the scores (..., q, k) "
            f"of shape {scores.shape}"
        )
    if mask.dtype not in (np.dtype(np.bool_), scores.dtype):
        raise DTypeError(
            f"attention: attn_mask must be bool (True takes part) or {scores.dtype} (added to the "
            f"scores), not {mask.dtype}; compare, as in mask != 0, or cast with astype()"
        )


def _lowest(scores: Tensor) -> float:
    """Return a finite number that is below all scores."""
    return float(np.finfo(scores.dtype).min) if scores.dtype.kind == "f" else -3e38  # bfloat16
