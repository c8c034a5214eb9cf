"""Attention on the device: matrix products by cuBLAS, and between them one CUDA kernel; see ``attention.py``.

Queries are walked in blocks, so that memory grows with the length and not with its square; under a causal
mask a block multiplies only the keys that some query of it sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.attention.attention import Dropped, attention_lead, in_units
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import (
    Argument,
    Launcher,
    check_same_shape,
    contiguous,
    device_table,
    each,
    rows,
    wide,
    zeros,
)
from shardwise.backend.kernels.random.dropout import dropout_scale
from shardwise.backend.random import bernoulli_threshold

__all__ = ["attention_backward", "attention_forward", "launch"]

launch = Launcher(DeviceSource("attention/attention.cu", dtypes=("float32", "float64")))

_MOST_SCORES = 1 << 25  # at once: 128 MiB of float32
_CAUSAL_BLOCKS = 8  # of which the first half saves work
_WORDS = 2**64


def attention_forward(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    mask: Array | None,
    scale: float,
    causal: bool,
    dropped: Dropped | None = None,
) -> tuple[Array, Array, Array]:
    dtype = q.dtype
    q, k, v = _widened(q), _widened(k), _widened(v)
    bias = None if bias is None else _widened(bias)
    if dropped is not None and not isinstance(dropped.offset, int):  # in several runs: by the formula
        return NotImplemented
    call = _Call(q, k, v, bias, mask, scale, causal, dropped)
    y = zeros(q, (*call.lead, call.queries, v.shape[-1]))
    peak, share = zeros(q, (*call.lead, call.queries)), zeros(q, (*call.lead, call.queries))
    for block, seen in call.blocks():
        weights = call.scores(block, seen)
        count = math.prod(weights.shape[:-1])
        launch(
            "attention_weights",
            q.dtype,
            rows(count, seen, q.itemsize),
            *(weights, *call.around, peak, share, *call.numbers(block), count, seen),
        )
        y[..., block, :] = np.matmul(weights, v[..., :seen, :])
    return y.astype(dtype, copy=False), peak, share


def attention_backward(
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
    if dropped is not None and not isinstance(dropped.offset, int):
        return NotImplemented
    dtype = q.dtype
    check_same_shape("attention_backward", g, y, "output")
    if peak is None or share is None:
        peak, share = attention_forward(q, k, v, bias, mask, scale, causal, dropped)[1:]
    g, q, k, v, y = _widened(g), _widened(q), _widened(k), _widened(v), _widened(y)
    bias = None if bias is None else _widened(bias)
    call = _Call(q, k, v, bias, mask, scale, causal, dropped)
    along = contiguous(np.sum(g * y, axis=-1))
    peak, share = contiguous(_widened(peak)), contiguous(_widened(share))
    made = [
        zeros(q, (*call.lead, *shape)) if wanted else None
        for wanted, shape in zip(
            need, (q.shape[-2:], k.shape[-2:], v.shape[-2:], (call.queries, call.keys)), strict=True
        )
    ]
    dq, dk, dv, dbias = made[0], made[1], made[2], made[3] if bias is not None else None
    for block, seen in call.blocks():
        weights = call.scores(block, seen)
        ds = contiguous(np.matmul(g[..., block, :], np.swapaxes(v, -1, -2)[..., :seen]))
        count = math.prod(weights.shape[:-1])
        launch(
            "attention_gradients",
            q.dtype,
            each(weights.size, 16),
            *(weights, ds, *call.around, peak, share, along, *call.numbers(block), count, seen),
        )
        if dq is not None:
            dq[..., block, :] = np.matmul(ds, k[..., :seen, :]) * scale
        if dk is not None:
            dk[..., :seen, :] += np.matmul(np.swapaxes(ds, -1, -2), q[..., block, :]) * scale
        if dv is not None:
            dv[..., :seen, :] += np.matmul(np.swapaxes(weights, -1, -2), g[..., block, :])
        if dbias is not None:
            dbias[..., block, :seen] = ds
    dq, dk, dv, dbias = (None if x is None else x.astype(dtype, copy=False) for x in (dq, dk, dv, dbias))
    return dq, dk, dv, dbias


def _widened(x: Array) -> Array:
    return x.astype(wide(x.dtype), copy=False)


class _Around(NamedTuple):
    """An array that broadcasts over (..., t, s), as the kernels take it."""

    place: Array | None = None
    starts: Array | None = None
    row: int = 0
    column: int = 0


class _Call:
    """What a call of attention is about: sizes, blocks, and what lies around the scores."""

    def __init__(
        self,
        q: Array,
        k: Array,
        v: Array,
        bias: Array | None,
        mask: Array | None,
        scale: float,
        causal: bool,
        dropped: Dropped | None,
    ) -> None:
        self.lead = attention_lead(q, k, v, bias, mask)
        self.queries, self.keys = q.shape[-2], k.shape[-2]
        self._q, self._units = in_units(q, bias, scale)
        self._k = np.swapaxes(k, -1, -2)
        self._causal = causal
        self._dropped = dropped
        shown = None if mask is None else mask.astype(np.bool_, copy=False)
        self.around = (*self._around(bias), *self._around(shown))

    def blocks(self) -> Iterator[tuple[slice, int]]:
        """Queries, and how many keys some of them see."""
        if 0 in (*self.lead, self.queries, self.keys):
            return
        most = max(1, _MOST_SCORES // (math.prod(self.lead) * self.keys))
        if self._causal:
            most = min(most, max(256, -(-self.queries // _CAUSAL_BLOCKS)))
        for start in range(0, self.queries, most):
            stop = min(start + most, self.queries)
            yield slice(start, stop), min(stop, self.keys) if self._causal else self.keys

    def scores(self, block: slice, seen: int) -> Array:
        """The products of queries and keys, contiguous, shape (*lead, block, seen)."""
        product = np.matmul(self._q[..., block, :], self._k[..., :seen])
        shape = (*self.lead, *product.shape[-2:])
        return contiguous(product if product.shape == shape else np.broadcast_to(product, shape))

    def numbers(self, block: slice) -> tuple[Argument, ...]:
        """The kernels' parameters that are numbers, in their order."""
        sizes = (int(self._causal), block.start, block.stop - block.start, self.queries, self.keys)
        if self._dropped is None:
            return (float(self._units), *sizes, np.uint64(0), np.uint64(0), 0, 0, 1.0)
        p, seed, stream, offset = self._dropped
        assert isinstance(offset, int)
        words = np.uint64(seed % _WORDS), np.uint64(stream % _WORDS), offset
        threshold = bernoulli_threshold("attention", p)
        return (float(self._units), *sizes, *words, threshold, dropout_scale(p))

    def _around(self, x: Array | None) -> _Around:
        if x is None:
            return _Around()
        rows, columns = (1, 1, *x.shape)[-2:]
        lead = x.shape[:-2]
        starts = None
        if math.prod(lead) > 1:
            first = np.arange(math.prod(lead)).reshape(lead) * (rows * columns)
            starts = device_table(x, tuple(np.broadcast_to(first, self.lead).ravel().tolist()))
        return _Around(contiguous(x), starts, columns if rows > 1 else 0, int(columns > 1))
