"""Scaled dot-product attention, with the probabilities kept for the backward.

Shapes: t queries, s keys, d and e features of a query and of a value.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["attention_backward", "attention_forward", "check_attention"]

_FUSED = "shardwise.backend.kernels.attention_cpu"


def check_attention(q: Array, k: Array, v: Array) -> None:
    """Raise ShapeError unless `q`, `k` and `v` have the shapes of one attention."""
    shapes = tuple(q.shape), tuple(k.shape), tuple(v.shape)
    fits = (
        all(len(shape) >= 2 for shape in shapes)
        and shapes[0][:-2] == shapes[1][:-2] == shapes[2][:-2]
        and shapes[0][-1] == shapes[1][-1]
        and shapes[1][-2] == shapes[2][-2]
    )
    if not fits:
        raise ShapeError(
            "attention: wanted q of shape (..., t, d), k of shape (..., s, d) and v of shape (..., s, e), "
            f"the leading dims the same, got {shapes[0]}, {shapes[1]} and {shapes[2]}."
        )


def _attention_forward(q: Array, k: Array, v: Array, scale: float, causal: bool) -> tuple[Array, Array]:
    """Average the values, each query with the weights that it gives to the keys.

    Parameters
    ----------
    q : floating array, shape (..., t, d)
    k : floating array, shape (..., s, d)
    v : floating array, shape (..., s, e)
        Views with a contiguous last dim are used as they are, without a copy.
    scale : float
        Multiplies the products of queries and keys; usually ``d ** -0.5``.
    causal : bool
        Whether query `i` sees only keys 0 to `i` (also if t and s differ: the mask starts at the top
        left, as PyTorch's does).

    Returns
    -------
    y : array, shape (..., t, e)
        On the CPU ``y.swapaxes(-3, -2)`` is contiguous, so that heads can be joined without a copy.
    p : array, shape (..., t, s)
        The weights, for the backward.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    check_attention(q, k, v)
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
    if causal:
        visible = np.tril(np.ones_like(scores, dtype=np.bool_, shape=scores.shape[-2:]))
        scores = np.where(visible, scores, -np.inf)
    e = np.exp(scores - np.amax(scores, axis=-1, keepdims=True))
    p = e / np.sum(e, axis=-1, keepdims=True)
    return np.matmul(p, v), p


def _attention_backward(
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    p: Array | None,
    y: Array | None,
    scale: float,
    causal: bool,
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """The gradients of :func:`attention_forward`'s first output.

    Parameters
    ----------
    g : floating array, shape (..., t, e)
        Gradient of `y`.
    q, k, v, scale, causal
        As in the forward.
    p, y : arrays of shapes (..., t, s) and (..., t, e), or None
        From the forward. If either is None both are computed again, so that gradients of this gradient
        see how they depend on `q`, `k` and `v`.
    out : three arrays of the shapes of `q`, `k` and `v`, optional
        Where to write the gradients; views into one array are welcome.

    Returns
    -------
    dq, dk, dv : arrays of the shapes of `q`, `k` and `v`
    """
    if p is None or y is None:
        y, p = _attention_forward(q, k, v, scale, causal)
    # The sum of dp * p over the keys is that of g * y over the features, which are fewer.
    along = np.sum(g * y, axis=-1, keepdims=True)
    ds = p * (np.matmul(g, np.swapaxes(v, -1, -2)) - along) * scale
    gradients = (
        np.matmul(ds, k),
        np.matmul(np.swapaxes(ds, -1, -2), q),
        np.matmul(np.swapaxes(p, -1, -2), g),
    )
    if out is None:
        return gradients
    for target, gradient in zip(out, gradients, strict=True):
        target[...] = gradient
    return out


attention_forward = Kernel(_attention_forward, f"{_FUSED}:attention_forward", arrays=3)
attention_backward = Kernel(_attention_backward, f"{_FUSED}:attention_backward", arrays=6)
