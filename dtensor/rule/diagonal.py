"""Diagonals of sharded matrices: each rank takes those of its elements that lie on them."""

from __future__ import annotations

from typing import Any

from shardwise.dtensor.layout import Layout
from shardwise.dtensor.rule.case import Case, Perform, Play, carried, lengths, without
from shardwise.dtensor.strategy import Strategy
from shardwise.tensor.ops import triangle
from shardwise.tensor.signature import Part

__all__ = ["diagonal_rule", "trace_rule", "undiagonal_rule"]


class DiagonalPart(triangle.Diagonal):
    """The diagonal of a part, counted from its own corner."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        ndim = len(inputs[0].whole)
        row, column = (inputs[0].offset[params[name] % ndim] for name in ("dim1", "dim2"))
        return {**params, "offset": params["offset"] + row - column}


def diagonal_rule(case: Case) -> Strategy | None:
    """Cut the diagonal where the rows, or the columns, are cut."""
    layout, params = case.first, case.params
    rows, columns = (params[name] % layout.ndim for name in ("dim1", "dim2"))
    cut = [dim for dim in (rows, columns) if layout.order[dim]]
    if not cut:
        return None
    (result,), _ = case.results()
    source = case.moving(layout)
    if len(cut) == 2:  # a diagonal of pieces on both sides is no row of pieces
        source = without(source, [columns])
    dim = rows if layout.order[rows] else columns
    offset: int = params["offset"]
    start = max(0, -offset) if dim == rows else max(0, offset)
    count: int = result.shape[-1]

    def before(place: int) -> int:  # how much of the diagonal is before a row, or a column
        return min(max(place - start, 0), count)

    sizes = [before(b) - before(a) for a, b in source.ranges[dim]]
    origin = [d for d in range(layout.ndim) if d not in (rows, columns)]
    target = carried(source, result.shape, [*origin, dim], {len(origin): sizes})
    return case.strategy([source], [target], DiagonalPart)


def trace_rule(case: Case) -> Play | None:
    """Add up the diagonal."""
    layout, params = case.first, case.params
    if layout.ndim < 2:
        return None
    dims = {name: params.get(name, at) % layout.ndim for at, name in enumerate(("dim1", "dim2"))}
    if not any(layout.order[dim] for dim in dims.values()):
        return None
    case.results()

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return triangle.Diagonal.apply(args[0], offset=params.get("offset", 0), **dims).sum(-1)

    return play


class UndiagonalPart(triangle.Undiagonal):
    """Rows of zeros with a piece of the diagonal in them."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        at, n = inputs[0].offset[-1], inputs[0].shape[-1]
        offset, rows = params["offset"], params["dim1"] % len(outputs[0].whole)
        more = {**params, "shape": outputs[0].shape}
        if n == inputs[0].whole[-1] or not n:
            return more if n else {**more, "offset": 0}
        row = at + max(0, -offset) - outputs[0].offset[rows]
        column = at + max(0, offset)
        return {**more, "offset": column - row}


def undiagonal_rule(case: Case) -> Strategy | None:
    """Cut the rows where the diagonal is cut; the first and the last piece have those beyond its ends."""
    layout, params = case.first, case.params
    if not layout.ndim or not layout.order[-1] or layout.numel == 0:
        return None
    (result,), _ = case.results()
    ndim = len(result.shape)
    rows, columns = (params[name] % ndim for name in ("dim1", "dim2"))
    source = case.moving(layout)
    sizes = _row_sizes(source, result.shape[rows], max(0, -params["offset"]))
    rest = iter(range(layout.ndim - 1))
    origin = [layout.ndim - 1 if d == rows else None if d == columns else next(rest) for d in range(ndim)]
    target = carried(source, result.shape, origin, {rows: sizes})
    return case.strategy([source], [target], UndiagonalPart)


def _row_sizes(layout: Layout, rows: int, lead: int) -> list[int]:
    """Return how many rows go with each piece of a diagonal that begins `lead` rows down."""
    sizes = list(lengths(layout, layout.ndim - 1))
    held = [i for i, n in enumerate(sizes) if n]
    tail = rows - lead - sum(sizes)
    sizes[held[0]] += lead
    sizes[held[-1]] += tail
    return sizes
