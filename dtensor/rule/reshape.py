"""Reshapes of sharded tensors: which dims of the old shape lie in which of the new one, part by part.

Old and new dims fall into groups of equal products. In a group the first dims that are not one hold the same
runs of memory in order, so a cut of one is a cut of the other, as long as it falls between elements of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shardwise.backend.array import Shape
from shardwise.dtensor.layout import Layout
from shardwise.tensor.ops.letter import LETTERS
from shardwise.tensor.signature import Dim, Terms

__all__ = ["groups", "reshape_terms"]


def groups(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """Part the dims of two shapes of one size into the smallest groups with equal products.

    Examples
    --------
    >>> groups((2, 3, 4), (6, 2, 2))
    [([0, 1], [0]), ([2], [1, 2])]
    """
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        left, right = [], []
        a = b = 1
        if i < len(before):
            a, left, i = before[i], [i], i + 1
        if j < len(after):
            b, right, j = after[j], [j], j + 1
        while a != b:
            if (a < b and i < len(before)) or j >= len(after):
                a, left, i = a * before[i], [*left, i], i + 1
            else:
                b, right, j = b * after[j], [*right, j], j + 1
        found.append((left, right))
    return found


def reshape_terms(shapes: Sequence[Shape], params: dict[str, Any], layouts: Sequence[Layout | None]) -> Terms:
    """Give the first dims of a group one letter, if the cuts of the old lie between elements of both."""
    before, after = shapes[0], tuple(params["shape"])
    left = [Dim(LETTERS[i], True) for i in range(len(before))]
    right = [Dim(LETTERS[len(before) + j], True) for j in range(len(after))]
    if math.prod(before) == 0:
        pairs = [
            (i, i)
            for i, (n, m) in enumerate(zip(before, after, strict=False))
            if before[: i + 1] == after[: i + 1]
        ]
    else:
        pairs = []
        for old, new in groups(before, after):
            first = [i for i in old if before[i] != 1][:1]
            second = [j for j in new if after[j] != 1][:1]
            pairs += zip(first, second, strict=False)
    for i, j in pairs:
        if _falls_between(layouts[0], i, before[i], after[j]):
            left[i] = right[j] = Dim(LETTERS[i])
    return Terms((tuple(left),), (tuple(right),))


def _falls_between(layout: Layout | None, dim: int, n: int, m: int) -> bool:
    """Tell whether the cuts of a dim of size `n`, now `m`, are at whole places of both."""
    if n == m or layout is None:
        return True
    axes = layout.order[dim]
    width = math.prod([layout.mesh.shape[axis] for axis in axes])
    even = all(stop - start == n // width for start, stop in layout.ranges[dim])
    return n % width == 0 and m % width == 0 and even
