"""Scaled dot-product attention, with masks, dropout and heads that share keys.

Shapes: t queries, s keys, d and e features of a query and of a value. The leading dims of all arrays
broadcast, so that several heads of queries share the keys of one whose last leading dim is 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.random.dropout import dropout_scale
from shardwise.backend.position import Place
from shardwise.backend.random import bernoulli

__all__ = ["Dropped", "attention_backward", "attention_forward", "attention_lead", "in_units"]

_FUSED = "shardwise.backend.kernels.attention.attention_cpu"
_CUDA = "shardwise.backend.kernels.attention.attention_cuda"


class Dropped(NamedTuple):
    """Which weights dropout drops: weight ``i`` of the flat (..., t, s) by random bit ``offset + i``.

    Of a part of some attention, `Positions` say which bit each weight takes; its keys are all there.
    """

    p: float
    seed: int
    stream: int
    offset: Place


def attention_lead(q: Array, k: Array, v: Array, bias: Array | None, mask: Array | None) -> Shape:
    """Return the leading dims of the result; raise ShapeError unless all have the shapes of one attention."""
    shapes = tuple(q.shape), tuple(k.shape), tuple(v.shape)
    try:
        fits = min(map(len, shapes)) >= 2
        fits = fits and shapes[0][-1] == shapes[1][-1] and shapes[1][-2] == shapes[2][-2]
        lead = np.broadcast_shapes(*(shape[:-2] for shape in shapes))
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            "attention: wanted q of shape (..., t, d), k of shape (..., s, d) and v of shape (..., s, e), "
            f"with leading dims that broadcast, got {shapes[0]}, {shapes[1]} and {shapes[2]}."
        )
    scores = (*lead, shapes[0][-2], shapes[1][-2])
    for added in (bias, mask):
        if added is not None and not _broadcasts(tuple(added.shape), scores):
            raise ShapeError(
                f"attention: the mask has shape {tuple(added.shape)}, which does not broadcast to that of "
                f"the scores, (..., t, s) = {scores}."
            )
    return lead


def _broadcasts(shape: Shape, to: Shape) -> bool:
    ends = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(n in (1, m) for n, m in ends)


def in_units(q: Array, bias: Array | None, scale: float) -> tuple[Array, float]:
    """Return queries and a positive scale to multiply their scores by, once the bias was added to them.

    The largest score can then be looked for before the scores are multiplied, which takes a pass less.
    """
    if bias is None and scale > 0.0:
        return q, scale
    return q * scale, 1.0


def _attention_forward(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    mask: Array | None,
    scale: float,
    causal: bool,
    dropped: Dropped | None = None,
) -> tuple[Array, Array, Array]:
    """Average the values, each query with the weights that it gives to the keys.

    Parameters
    ----------
    q : floating array, shape (..., t, d)
    k : floating array, shape (..., s, d)
    v : floating array, shape (..., s, e)
        Views with a contiguous last dim are used as they are, without a copy. Leading dims broadcast.
    bias : floating array, broadcastable to (..., t, s), or None
        Added to the scores; a key of ``-inf`` takes no part.
    mask : array of bool, broadcastable to (..., t, s), or None
        True where a key takes part.
    scale : float
        Multiplies the products of queries and keys; usually ``d ** -0.5``.
    causal : bool
        Whether query `i` sees only keys 0 to `i` (also if t and s differ: the mask starts at the top
        left, as PyTorch's does).
    dropped : Dropped, optional
        Which weights are dropped, if any; the others are multiplied by ``1 / (1 - p)``.

    Returns
    -------
    y : array, shape (..., t, e)
        Zeros for a query without keys. On the CPU ``y.swapaxes(-3, -2)`` is contiguous, so that heads
        can be joined without a copy.
    peak : array, shape (..., t)
        The largest score of each query, in the units of `in_units`; 0 without keys.
    share : array, shape (..., t)
        One over the sum of its weights before they add up to 1; 0 without keys.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    attention_lead(q, k, v, bias, mask)
    raised, peak, total = _raised(q, k, bias, mask, scale, causal)
    blind = total == 0.0
    share = np.where(blind, 0.0, 1.0 / np.where(blind, 1.0, total))
    weights = raised * share
    if dropped is not None:
        weights = np.where(_kept(weights, dropped), weights * dropout_scale(dropped.p), 0.0)
    return np.matmul(weights, v), np.squeeze(peak, -1), np.squeeze(share, -1)


def _attention_backward(
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    mask: Array | None,
    y: Array,
    peak: Array | None,
    share: Array | None,
    scale: float,
    causal: bool,
    dropped: Dropped | None = None,
    need: tuple[bool, bool, bool, bool] = (True, True, True, True),
) -> tuple[Array | None, Array | None, Array | None, Array | None]:
    """The gradients of :func:`attention_forward`'s first output.

    Parameters
    ----------
    g : floating array, shape (..., t, e)
        Gradient of `y`.
    q, k, v, bias, mask, scale, causal, dropped
        As in the forward.
    y : array, shape (..., t, e)
        From the forward.
    peak, share : arrays of shape (..., t), or None
        From the forward. If one is None both are computed again, so that gradients of this gradient
        see how they depend on `q` and `k`.
    need : four bool
        Which of the gradients are wanted.

    Returns
    -------
    dq, dk, dv, dbias : arrays or None
        Of the shapes of `q`, `k`, `v` and `bias`, or of those that they broadcast to; None where not
        needed, or where there is no `bias`.
    """
    attention_lead(q, k, v, bias, mask)
    if peak is None or share is None:
        raised, _, total = _raised(q, k, bias, mask, scale, causal)
        weights = raised / np.where(total == 0.0, 1.0, total)
    else:
        queries, units = in_units(q, bias, scale)
        scores = _scores(queries, k, bias, mask, causal)
        weights = np.exp((scores - np.expand_dims(peak, -1)) * units) * np.expand_dims(share, -1)
    counted, dp = weights, np.matmul(g, np.swapaxes(v, -1, -2))
    if dropped is not None:
        kept = _kept(weights, dropped)
        counted, dp = (np.where(kept, x * dropout_scale(dropped.p), 0.0) for x in (weights, dp))
    # The sum of dp * weights over the keys is that of g * y over the features, which are fewer.
    ds = weights * (dp - np.sum(g * y, axis=-1, keepdims=True))
    return (
        np.matmul(ds, k) * scale if need[0] else None,
        np.matmul(np.swapaxes(ds, -1, -2), q) * scale if need[1] else None,
        np.matmul(np.swapaxes(counted, -1, -2), g) if need[2] else None,
        ds if need[3] and bias is not None else None,
    )


def _scores(q: Array, k: Array, bias: Array | None, mask: Array | None, causal: bool) -> Array:
    """Return the products of queries and keys with the bias, -inf where a key takes no part."""
    scores = np.matmul(q, np.swapaxes(k, -1, -2))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    if causal:
        visible = np.tril(np.ones_like(scores, dtype=np.bool_, shape=scores.shape[-2:]))
        scores = np.where(visible, scores, -np.inf)
    return scores


def _raised(
    q: Array, k: Array, bias: Array | None, mask: Array | None, scale: float, causal: bool
) -> tuple[Array, Array, Array]:
    """Return e to the scores less their largest, (..., t, s), that largest and the sum, (..., t, 1)."""
    queries, units = in_units(q, bias, scale)
    scores = _scores(queries, k, bias, mask, causal)
    if not scores.shape[-1]:
        empty = np.sum(scores, axis=-1, keepdims=True)
        return scores, empty, empty
    peak = np.amax(scores, axis=-1, keepdims=True)
    peak = np.where(peak == -np.inf, 0.0, peak)  # of a query without keys: the difference would be NaN
    raised = np.exp((scores - peak) * units)
    return raised, peak, np.sum(raised, axis=-1, keepdims=True)


def _kept(weights: Array, dropped: Dropped) -> Array:
    return np.logical_not(bernoulli(weights.shape, *dropped, like=weights))


attention_forward = Kernel(
    _attention_forward,
    f"{_FUSED}:attention_forward",
    arrays=5,
    integer="mask",
    statistics=2,
    cuda=f"{_CUDA}:attention_forward",
)
attention_backward = Kernel(
    _attention_backward,
    f"{_FUSED}:attention_backward",
    arrays=9,
    integer="mask",
    cuda=f"{_CUDA}:attention_backward",
)
