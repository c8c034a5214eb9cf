"""Calls of the selection ops, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import INDEX, Case, make
from cases.rearrangement import STRIDED
from shardwise.nn import functional as F

__all__ = ["CASES"]

ROWS = np.array([1, 1, 0])
MASK = np.array([[True, False, True], [False, False, True]])

CASES: dict[str, Case] = {
    "slice": (lambda a: a[1:, ::2], (make(3, 5),)),
    "slice backwards": (lambda a: a[::-1, None, 1], (make(3, 5),)),
    "slice an element": (lambda a: a[1, 2] * a[-1, 0], (make(3, 5),)),
    "slice nothing": (lambda a: a[2:1], (make(3, 2),)),
    "slice everything": (lambda a: a[...] * a[()], (make(2),)),
    "slice by a tensor": (lambda a: a[sw.tensor(1)] * a[: sw.tensor(2)], (make(3),)),  # type: ignore[misc]
    "index": (lambda a: a[INDEX], (make(3, 2),)),
    "index repeated": (lambda a: a[ROWS] * a[ROWS[::-1]], (make(2, 3),)),
    "index list": (lambda a: a[[0, 0, -1]], (make(3, 2),)),
    "index tensor": (lambda a: a[sw.tensor(INDEX), sw.tensor([0, 1, 1])], (make(3, 2),)),
    "index mixed": (lambda a: a[:, INDEX[0]], (make(2, 3),)),
    "index apart": (lambda a: a[ROWS, :, [0, 1, 1]], (make(2, 3, 2),)),
    "index apart by dots for no dim": (lambda a: a[:, ROWS, ..., [0, 1, 1]], (make(2, 3, 2),)),
    "index beside an integer": (lambda a: a[:, 1, ROWS, 1:], (make(2, 2, 2, 3),)),
    "index apart from an integer": (lambda a: a[0, :, ROWS], (make(2, 3, 2),)),
    "index and new dims": (lambda a: a[None, ROWS, ..., None], (make(2, 3),)),
    "index and steps": (lambda a: a[::-2, ROWS], (make(5, 2),)),
    "index none": (lambda a: a[np.zeros((0, 2), int)], (make(3, 2),)),
    "index strided": (lambda a: a[[0, 1, 1, 0]], (STRIDED,)),
    "index booleans": (lambda a: a[INDEX > 0], (make(2, 3),)),
    "index booleans and integers": (lambda a: a[[True, False], :, [0, 0, 1]], (make(2, 2, 2),)),
    "index booleans along a dim": (lambda a: a[:, [True, False, True]], (make(2, 3),)),
    "index one boolean": (lambda a: a[True] + a[None], (make(2, 3),)),
    "masked_select": (lambda a: a.masked_select(sw.tensor(MASK)), (make(3),)),
    "index_select": (lambda a: a.index_select(1, sw.tensor([2, 0, 2, 2])), (make(2, 3, 2),)),
    "index_select negative dim": (lambda a: a.index_select(-1, [0, 0]), (STRIDED,)),
    "index_select of nothing": (lambda a: a.index_select(-1, [0, 0]), (make(2, 0, 3),)),
    "index_select none": (lambda a: a.index_select(0, []), (make(2, 2),)),
    "gather": (lambda a: a.gather(1, sw.tensor(INDEX)), (make(2, 3),)),
    "gather fewer": (lambda a: a.gather(-2, sw.tensor([[[1], [1]]])), (make(2, 3, 2),)),
    "gather none": (lambda a: a.gather(0, np.zeros((0, 2), int)), (make(2, 3),)),
    "gather no dims": (lambda a: a.gather(0, sw.tensor(0)), (make(),)),
    "gather itself": (lambda a: a.gather(1, INDEX) * a, (make(2, 3),)),
    "take_along": (lambda a: a.take_along_dim(sw.tensor(INDEX), 0), (make(3, 3),)),
    "take_along broadcast": (lambda a: a.take_along_dim(sw.tensor([[-1], [0]]), 1), (make(1, 3),)),
    "take_along flat": (lambda a: a.take_along_dim(INDEX), (make(2, 3),)),
    "take": (lambda a: a.take(sw.tensor([[0, -1], [4, 0]])), (make(2, 3),)),
    "np.take": (lambda a: np.take(a, INDEX, axis=1), (make(2, 3),)),
    "np.take flat": (lambda a: np.take(a, [5, -1, 0]), (make(2, 3),)),
    "np.take_along_axis": (lambda a: np.take_along_axis(a, INDEX, 1), (make(2, 3),)),
    "embedding": (lambda w: F.embedding(sw.tensor(INDEX), w), (make(3, 2),)),
}  # fmt: skip
