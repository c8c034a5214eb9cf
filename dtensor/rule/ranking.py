"""One value by its place in the order along a sharded dim, and counts of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.errors import ArgumentError
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, Placement, Shard
from shardwise.dtensor.rule.case import Case, Perform, Play
from shardwise.dtensor.rule.mask import agreed_sizes, replica
from shardwise.dtensor.rule.ordering import sample_sorted, sortable
from shardwise.dtensor.strategy import finished
from shardwise.tensor.ops import index, search, selection

__all__ = ["bincount_rule", "kth_rule"]


def kth_rule(case: Case) -> Play | None:
    """Sort by samples; of those that equal the value the first is meant."""
    if not sortable(case.first):
        return None
    case.results()
    layout = case.first.reduced()
    n = layout.shape[0]

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = args[0].placed_as(layout)
        local = x.data.local
        if case.function is selection.KthValue:
            place = params["k"] - 1
        else:
            missing = sum(agreed_sizes(layout, 0, int(np.count_nonzero(local != local))))
            if params.get("ignore_nan", False):
                place = max(n - missing - 1, 0) // 2
            else:
                place = n - missing if missing else (n - 1) // 2
        found = sample_sorted(local, layout, False)
        at = place - sum(found.sizes[: found.piece])
        name = 0  # one more than the index, on the rank that has it
        if 0 <= at < len(found.keys):
            value, keys = found.keys[at], found.keys
            same = keys != keys if value != value else keys == value
            name = int(found.places[np.argmax(same)]) + 1
        name = sum(agreed_sizes(layout, 0, name)) - 1
        kept = params.get("keepdim", False)
        key: Any = slice(name, name + 1) if kept else name
        value = index.Slice.apply(x, index=(key,))
        where = np.array([name] if kept else name, np.int64)
        return value, replica(layout.mesh, where)

    return play


def bincount_rule(case: Case) -> Play | None:
    """Count in the parts, after the largest number is known: counts are terms of a sum."""
    layout = case.first
    weights = case.layouts[1] if len(case.layouts) > 1 else None
    if layout.ndim != 1 or not layout.order[0]:
        return None
    lies = layout.reduced()
    beside = None if weights is None else lies.with_dtype(weights.dtype)
    dtype: np.dtype[Any] = np.dtype(np.int64)
    if weights is not None:
        dtype = weights.dtype if weights.dtype.kind == "f" else np.dtype(np.float64)
    kinds: list[Placement] = [Partial("sum") if isinstance(p, Shard) else p for p in lies.placements]

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        a = args[0].placed_as(lies)
        local = a.data.local
        lengths = agreed_sizes(lies, 0, int(local.max()) + 1 if local.size else 0)
        lowest = min(agreed_sizes(lies, 0, int(local.min()) if local.size else 0))
        if lowest < 0:
            raise ArgumentError(f"bincount: wanted integers from 0 on, got {lowest}")
        count = max(params.get("minlength", 0), *lengths)
        target = Layout.of(lies.mesh, tuple(kinds), ((),), (count,), dtype)
        inputs = (lies,) if weights is None else (lies, beside)
        given = (a, *args[1:])
        layouts = tuple([getattr(getattr(arg, "data", None), "layout", None) for arg in given])
        inputs = (*inputs, *[None] * (len(given) - len(inputs)))
        strategy = finished(search.Bincount, inputs, layouts, (target,), False)
        return perform(strategy, given, {**params, "minlength": count})

    return play
