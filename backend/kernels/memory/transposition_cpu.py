"""Fused transposition of NumPy arrays; the formula is in ``transposition.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["transposed"]

_SIDE = 16  # words of a block: a line of the cache holds that many of four bytes


def transposed(words: Array) -> Array:
    words = contiguous(words)
    batch, rows, columns = words.shape
    out = np.empty((batch, columns, rows), words.dtype)
    _transposed(words, out)
    return out


@fused(lambda word: (read(word, 3), write(word, 3)))
def _transposed(words: Array, out: Array) -> None:
    batch, rows, columns = words.shape
    block = np.empty((_SIDE, _SIDE), words.dtype)
    whole_rows, whole_columns = rows - rows % _SIDE, columns - columns % _SIDE
    for b in range(batch):
        source, target = words[b], out[b]
        for top in range(0, whole_rows, _SIDE):
            for left in range(0, whole_columns, _SIDE):
                # By way of a block of its own, so that only whole lines are read, and whole lines written.
                for i in range(_SIDE):
                    line = source[top + i, left : left + _SIDE]
                    for j in range(_SIDE):
                        block[j, i] = line[j]
                for j in range(_SIDE):
                    line = target[left + j, top : top + _SIDE]
                    for i in range(_SIDE):
                        line[i] = block[j, i]
            for j in range(whole_columns, columns):
                for i in range(top, top + _SIDE):
                    target[j, i] = source[i, j]
        for j in range(columns):
            for i in range(whole_rows, rows):
                target[j, i] = source[i, j]
