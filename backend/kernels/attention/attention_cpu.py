"""Attention for NumPy arrays: BLAS on views, block by block; the formulas are in ``attention.py``.

Scores exist only as blocks of some queries and some keys of some heads, which stay in the second-level
cache from the product that makes them to the one that uses them. The largest score and the sum of a query
are kept up to date from block to block, and the average so far with them. The backward makes the blocks
again: that takes less time than storing and reading the weights would, and no memory. Under a causal mask
a block of queries stops at the last key that it sees.

References
----------
M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018;
T. Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness", 2022.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.attention import attention_block_cpu as block
from shardwise.backend.kernels.attention import attention_row_cpu as row
from shardwise.backend.kernels.attention.attention import Dropped, attention_lead
from shardwise.backend.kernels.attention.attention_task_cpu import (
    Part,
    Scratch,
    Task,
    heads_inside,
    rows_for_blas,
    widened,
)
from shardwise.backend.product import matmul

__all__ = ["attention_backward", "attention_forward"]


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
    lead = attention_lead(q, k, v, bias, mask)
    t, s, e = q.shape[-2], k.shape[-2], v.shape[-1]
    task = Task(lead, q, k, v, bias, mask, scale, causal, dropped, buffers=1)
    y = heads_inside(lead, t, e, 2 if task.grouped else 1, q.dtype)
    peak, share = np.empty((*lead, t), q.dtype), np.empty((*lead, t), q.dtype)
    if not s:
        for result in (y, peak, share):
            result[...] = 0.0
    elif peak.size:
        outputs = widened(y, 4), widened(peak, 3), widened(share, 3)
        with np.errstate(invalid="ignore", over="ignore"):
            for part in task.parts():
                _average(task, part, *(x[part] for x in outputs))
    return y, peak, share


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
    lead = attention_lead(q, k, v, bias, mask)
    shape = (*lead, q.shape[-2], v.shape[-1])
    if g.shape != shape:
        raise ShapeError(
            f"attention_backward: the gradient has shape {g.shape}, and the output {shape}; wanted the same."
        )
    if peak is None or share is None:
        y, peak, share = attention_forward(q, k, v, bias, mask, scale, causal, dropped)
    task = Task(lead, q, k, v, bias, mask, scale, causal, dropped, buffers=2)
    dq = _like(q, lead) if need[0] else None
    dk, dv = (
        _like(x, task.lead_of_keys) if needed else None for x, needed in zip((k, v), need[1:3], strict=True)
    )
    dbias = np.zeros(bias.shape, bias.dtype) if need[3] and bias is not None else None
    empty = not (peak.size and k.shape[-2])
    for gradient, several in ((dq, empty), (dk, empty or task.grouped), (dv, empty or task.grouped)):
        if gradient is not None and several:
            gradient[...] = 0.0
    if empty:
        return dq, dk, dv, dbias
    given = widened(rows_for_blas(g), 4), widened(rows_for_blas(y), 4), widened(peak, 3), widened(share, 3)
    wide = [None if x is None else widened(x, 4) for x in (dq, dk, dv, _spread(dbias, lead, q, k))]
    with np.errstate(invalid="ignore", over="ignore"):
        for part in task.parts():
            keys = task.of_keys(part)
            gradients = [
                None if x is None else x[at] for x, at in zip(wide, (part, keys, keys, part), strict=True)
            ]
            _differentiate(task, part, [x[part] for x in given], gradients)
        if dq is not None and task.prescale != 1.0:
            dq *= task.prescale
    return dq, dk, dv, dbias


def _average(task: Task, part: Part, y: Array, peak: Array, share: Array) -> None:
    """Do the forward of one part."""
    scratch = Scratch(y.dtype)
    blocks = task.blocks()
    q, k, v = task.q[part], task.k[task.of_keys(part)], task.v[task.of_keys(part)]
    k, v = scratch.side_by_side("k", k), scratch.side_by_side("v", v)
    outer, inner, e = *q.shape[:2], v.shape[-1]
    count = outer * inner
    for rows, key_blocks in blocks:
        r = rows.stop - rows.start
        queries = scratch.side_by_side("q", q[:, :, rows])
        top, total, decay = scratch("statistics", 3, count, r)
        sums = scratch("sums", outer, inner, r, e)
        for keys in key_blocks:
            first = keys.start == 0
            weights = scratch("scores", outer, inner, keys.stop - keys.start, r)
            matmul(k[:, :, keys], queries.mT, out=weights)
            task.adjust(weights, part, rows, keys, scratch)
            flat = weights.reshape(count, -1, r)
            block.weigh_(flat, top, total, decay, task.factor, task.diagonal(rows, keys), first)
            kept = task.draw(part, rows, keys)
            if kept is not None:
                block.drop_(weights.reshape(-1), kept.reshape(-1))
            more = sums if first else scratch("more", outer, inner, r, e)
            matmul(weights.mT, v[:, :, keys], out=more)
            if not first:
                row.add_weighted_(sums.reshape(count, r, e), more.reshape(count, r, e), decay)
        statistics = (x.reshape(outer, inner, r) for x in (top, total))
        outputs = (x[:, :, rows] for x in (y, peak, share))
        row.finish_(sums, *statistics, *outputs, task.kept)


def _differentiate(task: Task, part: Part, given: list[Array], gradients: list[Array | None]) -> None:
    """Do the backward of one part."""
    dq, dk, dv, dbias = gradients
    scratch = Scratch(task.q.dtype)
    blocks = task.blocks()
    q, k, v = task.q[part], task.k[task.of_keys(part)], task.v[task.of_keys(part)]
    k, v = scratch.side_by_side("k", k), scratch.side_by_side("v", v)
    outer, inner, e = *q.shape[:2], v.shape[-1]
    # What several blocks of queries or several heads add to is summed aside, with its rows side by side.
    aside = len(blocks) > 1 or task.grouped or not task.sees_all()
    dk_sums, dv_sums = (np.zeros(x.shape, x.dtype) if aside else None for x in (k, v))
    for rows, key_blocks in blocks:
        r = rows.stop - rows.start
        queries = scratch.side_by_side("q", q[:, :, rows])
        top, along = scratch("statistics", 2, outer, inner, r)
        shares = scratch("shares", outer, inner, r, e)
        row.prepare_(*(x[:, :, rows] for x in given), shares, top, along, task.kept)
        for keys in key_blocks:
            weights, ds = scratch("scores", 2, outer, inner, keys.stop - keys.start, r)
            matmul(k[:, :, keys], queries.mT, out=weights)
            task.adjust(weights, part, rows, keys, scratch)
            if dq is not None or dk is not None or dbias is not None:
                matmul(v[:, :, keys], shares.mT, out=ds)
            kept = task.draw(part, rows, keys)
            _differentiate_block(task, weights, ds, top, along, kept, task.diagonal(rows, keys))
            if dbias is not None:
                block.add_bias_gradient_(ds, dbias[:, :, rows, keys])
            if dv is not None:
                _add_product(weights, shares, dv, dv_sums, keys, scratch)
            if dk is not None:
                _add_product(ds, queries, dk, dk_sums, keys, scratch)
            if dq is not None:
                turned, out = ds.mT, dq[:, :, rows]
                if len(key_blocks) == 1:
                    matmul(turned, k[:, :, keys], out=out)
                    continue
                dq_sums = scratch("dq", *out.shape)
                more = dq_sums if keys.start == 0 else scratch("more", *out.shape)
                matmul(turned, k[:, :, keys], out=more)
                if more is not dq_sums:
                    np.add(dq_sums, more, out=dq_sums)
                if keys is key_blocks[-1]:
                    out[...] = dq_sums
    for gradient, sums in ((dk, dk_sums), (dv, dv_sums)):
        if gradient is not None and sums is not None:
            if task.grouped:  # other heads of the group may be in another part
                gradient += sums
            else:
                gradient[...] = sums


def _differentiate_block(
    task: Task, weights: Array, ds: Array, top: Array, along: Array, kept: Array | None, diagonal: int
) -> None:
    cells, queries = (-1, *weights.shape[-2:]), (-1, weights.shape[-1])
    block.differentiate_(
        *(weights.reshape(cells), ds.reshape(cells), top.reshape(queries), along.reshape(queries)),
        *(np.empty((0, 0, 0), np.bool_) if kept is None else kept.reshape(cells), kept is not None),
        *(task.factor, task.units, diagonal),
    )


def _add_product(
    block_of: Array, rows: Array, gradient: Array, sums: Array | None, keys: slice, scratch: Scratch
) -> None:
    """Add the product of a block (keys, queries) and rows of queries to the gradient of the keys."""
    if sums is None:
        matmul(block_of, rows, out=gradient[:, :, keys])
        return
    more = scratch("keys", *block_of.shape[:-1], rows.shape[-1])
    row.add_rows_(sums, matmul(block_of, rows, out=more), keys.start)


def _like(x: Array, lead: Shape) -> Array:
    """An empty array for the gradient of `x`, of its memory layout where `lead` and that allow it."""
    shape = (*lead, *x.shape[-2:])
    if x.shape == shape and x.strides[-1] == x.itemsize:
        return np.empty_like(x)
    return np.empty(shape, x.dtype)


def _spread(gradient: Array | None, lead: Shape, q: Array, k: Array) -> Array | None:
    """The gradient of a bias seen as that of all scores: what was broadcast has stride 0."""
    if gradient is None:
        return None
    shape = (*lead, q.shape[-2], k.shape[-2])
    wide = widened(gradient, len(shape))
    strides = [
        0 if have != want else stride
        for have, want, stride in zip(wide.shape, shape, wide.strides, strict=True)
    ]
    return np.lib.stride_tricks.as_strided(wide, shape, strides)
