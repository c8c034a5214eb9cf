"""A run as a grid of time and ranks: `draw` in text, `draw_svg` as a picture, `draw_png` by matplotlib."""

from __future__ import annotations

import importlib
from html import escape
from pathlib import Path
from typing import Any, Final

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.simulation import Simulation
from shardwise.pipelining.span import Span

__all__ = ["draw", "draw_png", "draw_svg"]

# Per kind: for a rank's first stage, and paler ones for those after it.
_COLOURS: Final[dict[str, tuple[str, ...]]] = {
    "F": ("#4c78a8", "#9ecae9", "#c6dbef", "#deebf7"),
    "I": ("#f58518", "#ffbf79", "#fdd0a2", "#fee6ce"),
    "W": ("#54a24b", "#88d27a", "#c7e9c0", "#e5f5e0"),
    "B": ("#e45756", "#ff9d98", "#fcbba1", "#fee0d2"),
    "R": ("#b279a2", "#d6a5c9", "#dadaeb", "#efedf5"),
    "OVERLAP_F_B": ("#79706e", "#bab0ac", "#d9d9d9", "#f0f0f0"),
}
_ROW, _LEFT, _TOP = 26, 60, 28  # pixels


def draw(simulation: Simulation, columns: int = 160) -> str:
    """Return a grid with a line per rank and a column per unit of time.

    A unit is what the shortest action takes; each action fills as many cells as it is long.

    Parameters
    ----------
    simulation : Simulation
    columns : int
        The most units that are shown, so that a long run stays readable: then a column is longer.

    Examples
    --------
    >>> from shardwise.pipelining.program import Program
    >>> from shardwise.pipelining.simulation import simulate
    >>> print(draw(simulate(Program.from_text("0F0,0F1,0B0,0B1\\n1F0,1B0,1F1,1B1"))))
    rank 0 |F0 F1 .. .. B0 B0 .. B1 B1
    rank 1 |.. F0 B0 B0 F1 B1 B1 .. ..
    """
    lengths = [span.length for spans in simulation.spans for span in spans if span.length > 0]
    if not lengths:
        return "\n".join([f"rank {rank} |" for rank in range(len(simulation.spans))])
    count = max(1, min(columns, round(simulation.makespan / min(lengths))))
    step = simulation.makespan / count
    rows = []
    for rank, spans in enumerate(simulation.spans):
        several = len(simulation.program.stages_of(rank)) > 1
        row = ["."] * count
        for span in spans:
            for column in range(count):
                if span.start <= (column + 0.5) * step < span.end:
                    row[column] = _label(span, several)
        rows.append(row)
    width = max(len(cell) for row in rows for cell in row)
    digits = len(str(len(rows) - 1))
    lines = []
    for rank, row in enumerate(rows):
        cells = [cell.ljust(width, "." if cell == "." else " ") for cell in row]
        lines.append(f"rank {rank:>{digits}} |" + " ".join(cells).rstrip())
    return "\n".join(lines)


def _label(span: Span, several: bool) -> str:
    """Return what is written on an action: ``F3``, or ``4F3`` where a rank has several stages."""
    plain = [f"{part.stage if several else ''}{part.kind}{part.microbatch}" for part in span.action.compute]
    return "+".join(plain)


def draw_svg(simulation: Simulation, path: str | Path | None = None, width: int = 1200) -> str:
    """Return a picture of a run as SVG, and write it into a file if one is named.

    Parameters
    ----------
    simulation : Simulation
    path : str or Path, optional
    width : int
        Pixels.
    """
    scale = (width - _LEFT - 10) / (simulation.makespan or 1.0)
    height = _TOP + _ROW * len(simulation.spans) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="4" y="16" font-size="12">{_title(simulation)}</text>',
    ]
    for rank, spans in enumerate(simulation.spans):
        y = _TOP + _ROW * rank
        stages = simulation.program.stages_of(rank)
        out.append(f'<text x="4" y="{y + 16}">rank {rank}</text>')
        out.append(
            f'<rect x="{_LEFT}" y="{y}" width="{width - _LEFT - 10}" height="{_ROW - 2}" fill="#f4f4f4"/>'
        )
        for span in spans:
            out += _box(span, stages, y, scale)
    out += _axis(simulation.makespan, scale, height)
    text = "\n".join([*out, "</svg>"]) + "\n"
    if path is not None:
        Path(path).write_text(text)
    return text


def _title(simulation: Simulation) -> str:
    return escape(
        f"{len(simulation.spans)} ranks, {simulation.program.stages} stages, "
        f"{simulation.program.microbatches} microbatches: {simulation.makespan:g} units, "
        f"bubble {simulation.bubble:.1%}, peak {max(simulation.peak):g}"
    )


def _box(span: Span, stages: tuple[int, ...], y: int, scale: float) -> list[str]:
    """Return an action's rectangle, its text if there is room, and what is shown under the pointer."""
    kind = span.action.kind
    chunk = stages.index(span.action.stage) if span.action.stage in stages else 0
    colour = _COLOURS[kind][chunk % 4]
    x, wide = _LEFT + span.start * scale, span.length * scale
    label = _label(span, len(stages) > 1)
    hint = f"{span.action}: {span.start:g} to {span.end:g}"
    box = [
        f'<g><title>{escape(hint)}</title><rect x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{_ROW - 2}" '
        f'fill="{colour}" stroke="white" stroke-width="0.5"/>'
    ]
    if wide > 6 * len(label):
        box.append(f'<text x="{x + wide / 2:.2f}" y="{y + 16}" text-anchor="middle">{escape(label)}</text>')
    return [*box, "</g>"]


def _axis(makespan: float, scale: float, height: int) -> list[str]:
    marks = []
    for tick in range(9):
        time = makespan * tick / 8
        x = _LEFT + time * scale
        marks.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="#666">{time:.3g}</text>')
    return marks


def draw_png(simulation: Simulation, path: str | Path) -> None:
    """Write a picture of a run as PNG.

    Raises
    ------
    ScheduleError
        matplotlib is not installed.
    """
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ScheduleError(
            "a PNG needs matplotlib, which is not installed; pip install matplotlib, or draw an SVG"
        ) from error
    figure, axes = pyplot.subplots(figsize=(14, 0.5 * len(simulation.spans) + 1.2))
    for rank, spans in enumerate(simulation.spans):
        stages = simulation.program.stages_of(rank)
        for span in spans:
            chunk = stages.index(span.action.stage) if span.action.stage in stages else 0
            colour = _COLOURS[span.action.kind][chunk % 4]
            axes.barh(rank, span.length, left=span.start, color=colour, edgecolor="white", height=0.9)
    axes.set_yticks(range(len(simulation.spans)), [f"rank {r}" for r in range(len(simulation.spans))])
    axes.invert_yaxis()
    axes.set_title(_title(simulation))
    figure.savefig(path, bbox_inches="tight")
    pyplot.close(figure)
