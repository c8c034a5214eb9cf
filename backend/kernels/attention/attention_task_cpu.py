"""How attention is cut into blocks of some queries, some keys and some heads."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ArgumentError
from shardwise.backend.kernels.attention import attention_block_cpu as block
from shardwise.backend.kernels.attention.attention import Dropped, in_units
from shardwise.backend.kernels.attention.attention_row_cpu import copy_rows_
from shardwise.backend.kernels.random.dropout import dropout_scale
from shardwise.backend.philox import split_64
from shardwise.backend.position import Place, Positions, steps_of
from shardwise.backend.random import bernoulli_threshold

__all__ = ["Part", "Scratch", "Task", "heads_inside", "rows_for_blas", "widened"]

# Measured on Zen 4 with 1 MiB of second-level cache; half or twice of each changes little.
_QUERIES = 256  # of a block; BLAS reads all keys of it again for the next
_CAUSAL_QUERIES = (
    128  # until there are many blocks: half of what each computes on the diagonal is for nothing
)
_SHARED_QUERIES, _SHARED_CELLS = 128, 2**15  # with a mask, of which a block is made ready for several heads
_CELLS = 2**17  # scores of one head in a block: 512 KiB in float32
_ALL_CELLS = 2**18  # scores of all heads that are worked on at a time, where heads are small

Part = tuple[int | slice, ...]


class Task:
    """One attention: operands with all leading dims, and how it is cut into blocks.

    Parameters
    ----------
    lead : tuple of int
        Leading dims of the result.
    q, k, v, bias, mask, scale, causal, dropped
        As in ``attention.py``.
    buffers : int
        How many arrays of scores are worked on at a time.

    Attributes
    ----------
    q, k, v : arrays, at least four dims
        Keys and values of grouped heads have 1 for the last leading dim.
    units : float
        What the scores are multiplied by.
    prescale : float
        What the queries were multiplied by before.
    factor : float
        `units`, for exponentials of the base that is used.
    grouped : bool
        Whether heads along the last leading dim share keys and values.
    kept : float
        What the weights that are not dropped are multiplied by.
    """

    def __init__(
        self,
        lead: Shape,
        q: Array,
        k: Array,
        v: Array,
        bias: Array | None,
        mask: Array | None,
        scale: float,
        causal: bool,
        dropped: Dropped | None,
        buffers: int,
    ) -> None:
        queries, self.units = in_units(q, bias, scale)
        self.prescale = 1.0 if queries is q else scale
        self.factor = self.units / math.log(block.BASE[q.dtype])
        self.lead = (1,) * (2 - len(lead)) + lead
        self.t, self.s = t, s = q.shape[-2], k.shape[-2]
        self.grouped = bool(lead) and lead[-1] > 1 and all(x.shape[-3:-2] in ((), (1,)) for x in (k, v))
        self.lead_of_keys = (*lead[:-1], 1) if self.grouped else lead
        self.q = _spread(rows_for_blas(queries), lead, 2)
        self.k = _spread(rows_for_blas(k), self.lead_of_keys, 2)
        self.v = _spread(rows_for_blas(v), self.lead_of_keys, 2)
        dims = len(self.lead) + 2
        self._bias = None if bias is None else _spread_keys(_aligned(bias), s, dims)
        self._mask = None if mask is None else _spread_keys(mask.astype(np.bool_, copy=False), s, dims)
        self._causal = causal
        self._dropped = dropped
        self.kept = 1.0 if dropped is None else dropout_scale(dropped.p)
        if dropped is not None:
            self._firsts, self._width = self._bits_of(dropped.offset)
        masks = [x for x in (self._bias, self._mask) if x is not None and x.shape[-2] > 1]
        shared = bool(masks) and max(math.prod(x.shape[:-2]) for x in masks) < math.prod(self.lead)
        # Few queries meet more keys at a time, and few keys more queries.
        most, cells = (_SHARED_QUERIES, _SHARED_CELLS) if shared else (_QUERIES, _CELLS)
        rows = min(t, min(most, _CAUSAL_QUERIES) if causal and t < 16 * _QUERIES else most)
        self._keys = _even(s, cells // max(rows, 1))
        self._rows = _even(t, rows if causal else max(rows, cells // max(self._keys, 1)))
        self._heads = max(_ALL_CELLS // (buffers * max(self._rows * self._keys, 1)), 1)

    def parts(self) -> Iterator[Part]:
        """Give the heads that are worked on at a time, as an index of all leading dims."""
        *outer, n, heads = self.lead
        wide = _even(heads, self._heads)
        tall = _even(n, self._heads // heads) if wide == heads else 1
        for place in np.ndindex(*outer):
            for b in range(0, n, tall):
                for h in range(0, heads, wide):
                    yield (*place, slice(b, min(b + tall, n)), slice(h, min(h + wide, heads)))

    def of_keys(self, part: Part) -> Part:
        """Return where the keys of a part are."""
        return (*part[:-1], slice(None)) if self.grouped else part

    def blocks(self) -> list[tuple[slice, list[slice]]]:
        """Return blocks of queries, each with the blocks of keys of which it sees some."""
        blocks = []
        for row in range(0, self.t, self._rows):
            end = min(row + self._rows, self.t)
            seen = min(end, self.s) if self._causal else self.s
            keys = [slice(key, min(key + self._keys, seen)) for key in range(0, seen, self._keys)]
            blocks.append((slice(row, end), keys))
        return blocks

    def diagonal(self, rows: slice, keys: slice) -> int:
        """Return the last key of a block that its first query sees, counted from the block's first."""
        return int(rows.start - keys.start) if self._causal else int(keys.stop)

    def sees_all(self) -> bool:
        """Tell whether each key is seen by some query."""
        return self.s <= self.t or not self._causal

    def adjust(self, scores: Array, part: Part, rows: slice, keys: slice, scratch: Scratch) -> None:
        """Add the bias to a block of scores, and hide what the mask hides."""
        if self._bias is not None:
            given = _part_of(self._bias, part, rows, keys)
            turned = scratch("bias", *given.mT.shape)
            block.turn_(turned, given)
            block.add_bias_(scores, turned)
        if self._mask is not None:
            given = _part_of(self._mask, part, rows, keys)
            shown = scratch("mask", *given.mT.shape, dtype=given.dtype)
            block.turn_(shown, given)
            block.hide_(scores, shown)

    def draw(self, part: Part, rows: slice, keys: slice) -> Array | None:
        """Draw which weights of a block are kept, (.., .., keys, queries); None if all are."""
        if self._dropped is None:
            return None
        p, seed, stream, _ = self._dropped
        first = np.ascontiguousarray(self._firsts[part])
        kept = np.empty((*first.shape, keys.stop - keys.start, rows.stop - rows.start), np.bool_)
        words = *split_64(seed), *split_64(stream), bernoulli_threshold("attention", p)
        block.draw_(kept, first, rows.start, keys.start, self._width, *words)
        return kept

    def _bits_of(self, place: Place) -> tuple[Array, int]:
        """Return the position of the first weight of each head, and how far apart those of queries are."""
        if not isinstance(place, Positions):
            place = Positions(place, steps_of((*self.lead, self.t, self.s)))
        if place.first < 0:
            raise ArgumentError(f"attention: wanted an offset of 0 or more, got {place.first}.")
        *strides, width, _ = (0,) * (len(self.lead) + 2 - len(place.strides)) + place.strides
        found = np.full(1, place.first, np.int64)
        for n, stride in zip(self.lead, strides, strict=True):
            found = np.add.outer(found, np.arange(n, dtype=np.int64) * stride)
        return found.reshape(self.lead), width


class Scratch:
    """Memory for blocks, by name; what is asked for again is there again."""

    def __init__(self, dtype: np.dtype[np.generic]) -> None:
        self._dtype = dtype
        self._buffers: dict[str, Array] = {}
        self._arrays: dict[tuple[str, Shape], Array] = {}

    def __call__(self, name: str, *shape: int, dtype: np.dtype[np.generic] | None = None) -> Array:
        """Return an array of this shape, with anything in it."""
        dtype = dtype or self._dtype
        array = self._arrays.get((name, shape))
        if array is None:
            size = math.prod(shape)
            buffer = self._buffers.get(name)
            if buffer is None or buffer.size < size:
                buffer = self._buffers[name] = np.empty(size, dtype)
            array = self._arrays[name, shape] = buffer[:size].reshape(shape)
        return array

    def side_by_side(self, name: str, x: Array) -> Array:
        """Return `x` with its rows next to each other: BLAS takes others, but reads them more slowly."""
        if x.strides[-2] == x.shape[-1] * x.itemsize:
            return x
        out = self(name, *x.shape)
        copy_rows_(x, out)
        return out


def heads_inside(lead: Shape, t: int, features: int, inside: int, dtype: np.dtype[np.generic]) -> Array:
    """An empty array (*lead, t, features) whose last `inside` leading dims lie behind `t` in memory."""
    inside = min(inside, len(lead))
    cut = len(lead) - inside
    memory = np.empty((*lead[:cut], t, *lead[cut:], features), dtype)
    return memory.transpose(*range(cut), *range(cut + 1, len(lead) + 1), cut, len(lead) + 1)


def rows_for_blas(x: Array) -> Array:
    """`x`, copied only if NumPy would not hand its matrices to BLAS as they are."""
    row, column = x.strides[-2:]
    if column == x.itemsize and row >= x.shape[-1] * x.itemsize and row % x.itemsize == 0 and x.flags.aligned:
        return x
    return np.require(x, requirements=["C", "A"])


def widened(x: Array, dims: int) -> Array:
    """A view of `x` with dims of length 1 in front, so that it has as many as `dims`."""
    return x[(None,) * (dims - x.ndim)] if x.ndim < dims else x


def _spread(x: Array, lead: Shape, own: int) -> Array:
    """A view of `x` with `lead` in front of its `own` last dims, and at least four dims."""
    shape = (*lead, *x.shape[x.ndim - own :])
    return widened(x if x.shape == shape else np.broadcast_to(x, shape), 4)


def _spread_keys(x: Array, keys: int, dims: int) -> Array:
    """A view of a mask with as many dims as `dims`, of which only the last need not be broadcast."""
    x = widened(x, dims)
    return x if x.shape[-1] == keys else np.broadcast_to(x, (*x.shape[:-1], keys))


def _part_of(mask: Array, part: Part, rows: slice, keys: slice) -> Array:
    """A block of a mask, of which all dims but the last may be 1."""
    lead = [
        at if n > 1 else (0 if isinstance(at, int) else slice(None))
        for at, n in zip(part, mask.shape[:-2], strict=True)
    ]
    return mask[(*lead, rows if mask.shape[-2] > 1 else slice(None), keys)]


def _aligned(x: Array) -> Array:
    return x if x.flags.aligned else x.copy()


def _even(length: int, most: int) -> int:
    """The length of parts of at most that many, all as good as equal."""
    return -(-length // max(-(-length // max(most, 1)), 1))
