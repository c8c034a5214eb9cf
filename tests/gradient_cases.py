"""Calls of every op, in float64, small enough for finite differences: what several tests go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import shardwise as sw
from shardwise.nn import functional as F
from shardwise.tensor import Tensor

__all__ = ["CASES", "make"]


def make(*shape: int, seed: int = 0, low: float | None = None) -> Tensor:
    """A float64 tensor that requires grad: normal, or uniform in [low, low + 1)."""
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    values = rng.standard_normal(shape) if low is None else low + rng.random(shape)
    return sw.tensor(values, requires_grad=True)


INDEX = np.array([[2, 0, 2], [1, 1, 0]])
MASK = np.tri(3, 5, 1, dtype=bool)
TARGET = np.array([1, -100, 3, 0])

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add broadcast": (lambda a, b: a + b, (make(3, 4), make(4))),
    "add scalar": (lambda a: 2.0 + a + 1, (make(3),)),
    "add itself": (lambda a: a + a, (make(2, 3),)),
    "sub": (lambda a, b: a - b, (make(3, 1), make(2, 1, 4))),
    "rsub": (lambda a: 1.0 - a, (make(3),)),
    "mul": (lambda a, b: a * b, (make(3, 1), make(1, 4))),
    "mul itself": (lambda a: a * a, (make(3),)),
    "div": (lambda a, b: a / b, (make(3, 4), make(4, low=1.0))),
    "rdiv": (lambda a: 2.0 / a, (make(3, low=1.0),)),
    "pow": (lambda a, b: a**b, (make(3, low=0.5), make(2, 3))),
    "pow scalar": (lambda a: a**3, (make(3),)),
    "rpow": (lambda a: 2.0**a, (make(3),)),
    "neg": (lambda a: -a, (make(3),)),
    "zero-dimensional": (lambda a, b: a * b + a, (make(), make())),
    "empty": (lambda a: a * 2.0, (make(0, 3),)),
    "exp": (lambda a: a.exp(), (make(3),)),
    "log": (lambda a: a.log(), (make(3, low=0.5),)),
    "sqrt": (lambda a: a.sqrt(), (make(3, low=0.5),)),
    "sin cos": (lambda a: a.sin() * a.cos(), (make(3),)),
    "sinh cosh": (lambda a: a.sinh() * a.cosh(), (make(3),)),
    "tanh": (lambda a: a.tanh(), (make(3),)),
    "sigmoid": (lambda a: a.sigmoid(), (make(3),)),
    "erf": (lambda a: a.erf(), (make(5),)),
    "abs": (lambda a: abs(a), (make(3),)),
    "clip": (lambda a: a.clip(-0.5, 0.7), (make(6),)),
    "relu": (lambda a: a.relu(), (make(5),)),
    "maximum": (lambda a, b: a.maximum(b), (make(3, 4), make(4, seed=1))),
    "minimum": (lambda a, b: a.minimum(b), (make(3, 4), make(4, seed=1))),
    "where": (lambda a, b: sw.where(sw.tensor(INDEX > 0), a, b), (make(2, 3), make(3))),
    "remainder": (lambda a, b: a % b, (make(3, low=4.2), make(3, low=1.3))),
    "masked_fill": (lambda a: a.masked_fill(sw.tensor(INDEX > 0), 0.5), (make(2, 3),)),
    "matmul": (lambda a, b: a @ b, (make(2, 3), make(3, 4))),
    "matmul many rows": (lambda a, b: a @ b, (make(2, 2, 3), make(3, 4))),
    "matmul batch": (lambda a, b: a @ b, (make(2, 1, 2, 3), make(4, 3, 2))),
    "matmul one matrix, many": (lambda a, b: a @ b, (make(2, 3), make(4, 3, 2))),
    "matmul vector": (lambda a, b: a @ b, (make(3), make(3, 4))),
    "matmul to vector": (lambda a, b: a @ b, (make(2, 4, 3), make(3))),
    "matmul vector to many": (lambda a, b: a @ b, (make(3), make(2, 3, 4))),
    "dot": (lambda a, b: a @ b, (make(3), make(3, seed=1))),
    "linear": (F.linear, (make(2, 3, 4), make(5, 4), make(5))),
    "sum": (lambda a: a.sum(), (make(2, 3),)),
    "sum dim": (lambda a: a.sum(-1), (make(2, 3, 4),)),
    "sum dims keepdim": (lambda a: a.sum((0, -1), keepdim=True), (make(2, 3, 4),)),
    "mean": (lambda a: a.mean(), (make(2, 3),)),
    "mean dim": (lambda a: a.mean(1), (make(2, 3, 2),)),
    "var": (lambda a: a.var(-1), (make(2, 4),)),
    "amax": (lambda a: a.amax(1), (make(3, 4),)),
    "amin all": (lambda a: a.amin(), (make(3, 4),)),
    "reshape": (lambda a: a.reshape(3, -1), (make(2, 6),)),
    "flatten": (lambda a: a.flatten(1), (make(2, 3, 2),)),
    "permute": (lambda a: a.permute(2, 0, 1), (make(2, 3, 4),)),
    "transpose": (lambda a: a.transpose(-1, 0), (make(2, 3, 4),)),
    "T": (lambda a: a.T * 2.0, (make(2, 3),)),
    "squeeze": (lambda a: a.squeeze(1).unsqueeze(-1), (make(2, 1, 3),)),
    "expand": (lambda a: a.expand(4, -1, 3), (make(2, 1),)),
    "split": (lambda a: a.split(2, 1), (make(2, 5),)),
    "split sizes": (lambda a: a.split([1, 3], 0)[1], (make(4, 2),)),
    "chunk": (lambda a: a.chunk(2, -1)[0], (make(2, 5),)),
    "unbind": (lambda a: a.unbind(1), (make(2, 3, 2),)),
    "cat": (lambda a, b: sw.cat([a, b, a], 1), (make(2, 3), make(2, 1))),
    "stack": (lambda a, b: sw.stack([a, b], -1), (make(2, 3), make(2, 3, seed=1))),
    "tril": (lambda a: a.tril(-1), (make(2, 3, 3),)),
    "triu": (lambda a: a.triu(1), (make(3, 4),)),
    "slice": (lambda a: a[1:, ::2], (make(3, 5),)),
    "slice backwards": (lambda a: a[::-1, None, 1], (make(3, 5),)),
    "index": (lambda a: a[INDEX], (make(3, 2),)),
    "index mixed": (lambda a: a[:, INDEX[0]], (make(2, 3),)),
    "index booleans": (lambda a: a[INDEX > 0], (make(2, 3),)),
    "take_along": (lambda a: a.take_along_dim(sw.tensor(INDEX), 0), (make(3, 3),)),
    "astype": (lambda a: a.astype(np.float64) * 2.0, (make(3),)),
    "clone": (lambda a: a.clone(), (make(3),)),
    "embedding": (lambda w: F.embedding(sw.tensor(INDEX), w), (make(3, 2),)),
    "gelu": (F.gelu, (make(2, 5),)),
    "gelu tanh": (lambda a: F.gelu(a, "tanh"), (make(2, 5),)),
    "softmax": (lambda a: a.softmax(-1), (make(2, 4),)),
    "softmax dim": (lambda a: a.softmax(0), (make(3, 2),)),
    "log_softmax": (lambda a: a.log_softmax(), (make(2, 4),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, 4, w, b), (make(3, 4), make(4), make(4, seed=1))),
    "layer_norm plain": (lambda x: F.layer_norm(x, (2, 3)), (make(2, 2, 3),)),
    "layer_norm no shift": (lambda x, w: F.layer_norm(x, 4, w), (make(3, 4), make(4))),
    "cross_entropy": (lambda x: F.cross_entropy(x, sw.tensor(TARGET)), (make(4, 5),)),
    "cross_entropy none": (lambda x: F.cross_entropy(x, sw.tensor(TARGET), reduction="none"), (make(4, 5),)),
    "cross_entropy dims": (lambda x: F.cross_entropy(x, sw.tensor(INDEX), reduction="sum"), (make(2, 4, 3),)),
    "mse": (F.mse_loss, (make(2, 3), make(2, 3, seed=1))),
    "attention": (F.scaled_dot_product_attention, (make(2, 3, 4), make(2, 5, 4), make(2, 5, 2))),
    "attention causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (make(2, 2, 4, 3), make(2, 2, 4, 3, seed=1), make(2, 2, 4, 3, seed=2)),
    ),
    "attention masked": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=sw.tensor(MASK)),
        (make(2, 3, 4), make(2, 5, 4), make(2, 5, 2)),
    ),
}  # fmt: skip
