"""What is said of ops that run on replicas of what lies in parts: always right, seldom cheap."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from shardwise.collectives import get_world
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Replicate, Shard
from shardwise.tensor.function import Function

__all__ = ["SMALLEST", "report"]

SMALLEST = 64 << 10
"""Bytes below which nothing is said: what a rank receives of one input."""

_log = logging.getLogger("shardwise.dtensor")
_MOST = 8192
_said: set[Any] = set()


def report(
    function: type[Function],
    layouts: Sequence[Layout | None],
    inputs: Sequence[Layout | None],
    outputs: Sequence[Layout] | None,
) -> None:
    """Warn, once per op and layouts and by one rank, that an input is gathered and the result is replicas.

    Where one input is gathered so that others stay in parts, as a weight is for its batch, nothing is amiss.

    Parameters
    ----------
    function : Function class
    layouts, inputs : sequence of Layout or None
        How the inputs lie, and how the op takes them.
    outputs : sequence of Layout, or None
        How the results lie; None for replicas.
    """
    for i, (before, after) in enumerate(zip(layouts, inputs, strict=True)):
        if before is None or after is None or before is after:
            continue
        given_up = [
            axis
            for axis, (b, a) in enumerate(zip(before.placements, after.placements, strict=True))
            if isinstance(b, Shard) and isinstance(a, Replicate)
        ]
        if not any(
            all(isinstance(out.placements[axis], Replicate) for out in outputs or ()) for axis in given_up
        ):
            continue
        received = _held(after) - _held(before)
        silent = any(before.mesh.get_coordinate() or ()) and get_world().transport.name != "threads"
        if received < SMALLEST or silent:  # threads share what was said, and what need not be found again
            continue
        key = (function, i, before, after)
        if key in _said:
            continue
        if len(_said) >= _MOST:
            _said.clear()
        _said.add(key)
        _log.warning(
            "%s gathers input %d, %r, as [%s]: every rank receives %s bytes. It has no rule for dims that "
            "are cut so; shard another dim first, by redistribute(), or write it on parts, by local_map()",
            function.__name__, i, before, after, format(received, ","),
        )  # fmt: skip


def _held(layout: Layout) -> int:
    """Return how many bytes a rank holds, in the mean."""
    cut = [layout.mesh.shape[axis] for axis, p in enumerate(layout.placements) if isinstance(p, Shard)]
    return layout.numel * layout.dtype.itemsize // math.prod(cut)
