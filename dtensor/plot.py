"""Pictures of layouts: which ranks hold which block of a tensor, as text and as SVG."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple

from shardwise.backend.array import Shape
from shardwise.backend.errors import ArgumentError
from shardwise.collectives.rank_list import rank_list, rank_numbers
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.layout import Box, Coordinate, Layout
from shardwise.dtensor.placement import Partial

__all__ = ["plot_layout"]

_SIDE, _LEAST, _GAP = 360.0, 34.0, 56.0  # of a grid in pixels, of a block, between grids


class _Block(NamedTuple):
    """A block of one slice: which rows and columns, and who holds it."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    holders: str
    first: int


class _Slice(NamedTuple):
    """The blocks of the last two dims at a piece of all others, row by row."""

    title: str
    grid: list[list[_Block]]


def plot_layout(
    what: DTensor | Layout,
    *,
    format: Literal["text", "svg"] = "text",
    file: str | os.PathLike[str] | None = None,
) -> str:
    """Return a picture of who holds what; nothing is sent, and no values are read.

    Parameters
    ----------
    what : DTensor or Layout
    format : {"text", "svg"}
        A table, or an image. Of a tensor with more than two dims there is one for every piece of the others.
    file : path, optional
        Where to write it, too; an image if the name ends in ``.svg``.

    Returns
    -------
    str
        Blocks are named by the global ranks that hold them: ``0,2`` are replicas, ``0 + 2`` terms of a sum.

    Examples
    --------
    >>> from shardwise.collectives import run_threads
    >>> from shardwise.mesh import DeviceMesh
    >>> def show(rank):
    ...     mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], ("dp", "tp"))
    ...     return plot_layout(Layout(mesh, ["S(0)", "S(1)"], (5, 4), "float32"))
    >>> print(run_threads(show, 4)[0])
    float32[5, 4] on (dp=2, tp=2): S(0) S(1)
        │ 0:2 │ 2:4
    ────┼─────┼────
    0:3 │ 0   │ 1
    3:5 │ 2   │ 3
    """
    layout = what.layout if isinstance(what, DTensor) else what
    if not isinstance(layout, Layout):
        raise ArgumentError(f"plot_layout: wanted a DTensor or a Layout, got a {type(what).__name__}")
    if format not in ("text", "svg"):
        raise ArgumentError(f"plot_layout: format is 'text' or 'svg', got {format!r}")
    if file is not None and str(file).endswith(".svg"):
        format = "svg"
    picture = _text(layout) if format == "text" else _svg(layout)
    if file is not None:
        Path(file).write_text(picture + "\n", encoding="utf-8")
    return picture


# ---- who holds what


def _slices(layout: Layout) -> Iterator[_Slice]:
    """Yield the blocks, two dims at a time; a vector is one row."""
    pieces = [[piece for piece in ranges if piece[0] < piece[1]] for ranges in layout.ranges]
    held = _holders(layout)
    outer, (rows, columns) = pieces[:-2], ([(0, 1)], [(0, 1)], *pieces)[-2:]
    for lead in itertools.product(*outer):
        grid = []
        for row in rows:
            line = []
            for column in columns:
                dims = ((), (column,), (row, column))[min(layout.ndim, 2)]
                corner = tuple([start for start, _ in (*lead, *dims)])
                line.append(_Block(row, column, *held[corner]))
            grid.append(line)
        title = ", ".join([f"{start}:{stop}" for start, stop in lead] + [":", ":"]) if lead else ""
        yield _Slice(f"[{title}]" if title else "", grid)


def _holders(layout: Layout) -> dict[Shape, tuple[str, int]]:
    """Return, by the corner of each block, the ranks that hold it as text, and the first of them."""
    held: dict[Box, list[Coordinate]] = {}
    for place in itertools.product(*map(range, layout.mesh.shape)):
        for box in layout.boxes(place):
            held.setdefault(box, []).append(place)
    return {
        box.offset: (_named(layout, places), int(layout.mesh.mesh[places[0]])) for box, places in held.items()
    }


def _named(layout: Layout, places: Sequence[Coordinate]) -> str:
    """Write the ranks at some coordinates: replicas with commas, terms with what joins them."""
    terms: dict[Coordinate, list[int]] = {}
    for place in places:
        terms.setdefault(tuple([place[axis] for axis in layout.partial]), []).append(
            int(layout.mesh.mesh[place])
        )
    names = [rank_numbers(sorted(ranks)) for ranks in terms.values()]
    if len(names) == 1:
        return names[0]
    names = [
        f"({name})" if len(ranks) > 1 else name for name, ranks in zip(names, terms.values(), strict=True)
    ]
    ops = {kind.reduce_op for kind in layout.placements if isinstance(kind, Partial)}
    return " + ".join(names) if ops == {"sum"} else f"{'/'.join(sorted(ops))}({'; '.join(names)})"


def _idle(layout: Layout) -> str:
    """Say which ranks hold nothing."""
    places = itertools.product(*map(range, layout.mesh.shape))
    ranks = sorted([int(layout.mesh.mesh[place]) for place in places if not layout.boxes(place)])
    return f"nothing on {rank_list(ranks)}" if ranks else ""


def _headline(layout: Layout) -> str:
    return repr(layout)[len("Layout(") : -1]


def _span(piece: tuple[int, int]) -> str:
    return f"{piece[0]}:{piece[1]}"


# ---- as text


def _text(layout: Layout) -> str:
    lines = [_headline(layout)]
    for part in _slices(layout):
        if not part.grid or not part.grid[0]:
            continue
        lines += [part.title] if part.title else []
        head = ["", *[_span(block.columns) if layout.ndim else "" for block in part.grid[0]]]
        body = [["", *[block.holders for block in row]] for row in part.grid]
        if layout.ndim > 1:
            body = [[_span(row[0].rows), *cells[1:]] for row, cells in zip(part.grid, body, strict=True)]
        widths = [max(len(row[i]) for row in (head, *body)) for i in range(len(head))]
        lines.append(_row(head, widths))
        lines.append("─┼─".join(["─" * n for n in widths]))
        lines += [_row(row, widths) for row in body]
    return "\n".join([*lines, *([_idle(layout)] if _idle(layout) else [])])


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return " │ ".join([first[0].rjust(first[1]), *[cell.ljust(n) for cell, n in others]]).rstrip()


# ---- as SVG


def _svg(layout: Layout) -> str:
    pictures: list[str] = []
    top, wide = 30.0, _SIDE
    for part in _slices(layout):
        if not part.grid or not part.grid[0]:
            continue
        if part.title:
            pictures.append(_words(8, top + 14, part.title, "start"))
            top += 20
        ys = _edges([row[0].rows for row in part.grid], _SIDE / 2 if layout.ndim > 1 else _LEAST)
        xs = _edges([block.columns for block in part.grid[0]], _SIDE)
        pictures += _frame(part, layout.ndim, xs, ys, top + 16)
        top += 16 + ys[-1] + _GAP / 2
        wide = max(wide, xs[-1])
    idle = _idle(layout)
    if idle:
        pictures.append(_words(8, top + 6, idle, "start"))
        top += 16
    size = f'width="{wide + 2 * _GAP:.0f}" height="{top + 10:.0f}"'
    head = _words(8, 20, _headline(layout), "start")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
            head,
            *pictures,
            "</svg>",
        ]
    )


def _edges(pieces: Sequence[tuple[int, int]], length: float) -> list[float]:
    """Return where pieces start and end in a picture: in proportion, but wide enough to be read."""
    total = pieces[-1][1] - pieces[0][0]
    widths = [max(_LEAST, length * (stop - start) / total) for start, stop in pieces]
    return [0.0, *itertools.accumulate(widths)]


def _frame(part: _Slice, ndim: int, xs: Sequence[float], ys: Sequence[float], top: float) -> list[str]:
    """Draw the blocks of a slice, with the places of their edges."""
    lines = []
    if ndim:
        for block, x, right in zip(part.grid[0], xs, xs[1:], strict=False):
            lines.append(_words(_GAP + (x + right) / 2, top - 4, _span(block.columns)))
    for row, y, below in zip(part.grid, ys, ys[1:], strict=False):
        if ndim > 1:
            lines.append(_words(_GAP - 6, top + (y + below) / 2 + 4, _span(row[0].rows), "end"))
        for block, x, right in zip(row, xs, xs[1:], strict=False):
            terms = " " in block.holders
            stroke = ' stroke-dasharray="4 3"' if terms else ""
            lines.append(
                f'<rect x="{_GAP + x:.1f}" y="{top + y:.1f}" '
                f'width="{right - x:.1f}" height="{below - y:.1f}" '
                f'fill="hsl({block.first * 137 % 360} 60% 82%)" stroke="#333"{stroke}/>'
            )
            lines.append(_words(_GAP + (x + right) / 2, top + (y + below) / 2 + 4, block.holders))
    return lines


def _words(x: float, y: float, text: Any, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(str(text))}</text>'
