"""Pictures of layouts, asserted whole where they are small, and against the layout itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from shardwise.backend.errors import ArgumentError
from shardwise.collectives import run_threads
from shardwise.dtensor import Layout, Shard, Spec, distribute_tensor, plot_layout
from shardwise.mesh import DeviceMesh

QUARTERS = [" │ 0:1 │ 1:2 │ 2:3 │ 3:4", "─┼─────┼─────┼─────┼────"]
PICTURES: list[tuple[Any, tuple[int, ...], list[str]]] = [
    (["S(0)", "S(1)"], (5, 4), ["    │ 0:2 │ 2:4", "────┼─────┼────", "0:3 │ 0   │ 1", "3:5 │ 2   │ 3"]),
    (["R", "S(0)"], (3, 2), ["    │ 0:2", "────┼────", "0:2 │ 0,2", "2:3 │ 1,3"]),
    (["S(0)", "S(0)"], (4,), [*QUARTERS, " │ 0   │ 1   │ 2   │ 3"]),
    (Spec(("tp", "dp")), (4,), [*QUARTERS, " │ 0   │ 2   │ 1   │ 3"]),
    (["P", "S(1)"], (5, 2), ["    │ 0:1   │ 1:2", "────┼───────┼──────", "0:5 │ 0 + 2 │ 1 + 3"]),
    (["P", "R"], (2,), [" │ 0:2", "─┼────────────", " │ (0-1) + (2-3)"]),
    (["P(max)", "P(max)"], (2,), [" │ 0:2", "─┼────────────", " │ max(0; 1; 2; 3)"]),
    ([Shard(0, (1, 4)), "R"], (5,), [" │ 0:1 │ 1:5", "─┼─────┼────", " │ 0-1 │ 2-3"]),
    (["S(0)", "R"], (1, 2), ["    │ 0:2", "────┼────", "0:1 │ 0-1", "nothing on ranks 2-3"]),
    (["S(0)", "R"], (0, 2), ["nothing on ranks 0-3"]),
    (["R", "R"], (), [" │", "─┼────", " │ 0-3"]),
]  # fmt: skip


def grid() -> DeviceMesh:
    return DeviceMesh("cpu", [[0, 1], [2, 3]], ("dp", "tp"))


@pytest.mark.parametrize("case", PICTURES, ids=lambda case: f"{case[0]} {case[1]}")
def test_tables(case: Any) -> None:
    placements, shape, lines = case

    def body(rank: int) -> str:
        return plot_layout(Layout(grid(), placements, shape, "float32"))

    head, *table = run_threads(body, 4)[0].split("\n")
    assert head.startswith(f"float32{list(shape)} on (dp=2, tp=2): ")
    if len(lines) > 1 and "(" in lines[-1]:
        lines = [lines[0], "─┼─" + "─" * len(lines[2].split("│ ")[1]), *lines[2:]]
    assert table == lines


def test_slices_of_more_dims() -> None:
    def body(rank: int) -> str:
        return plot_layout(Layout(grid(), ["S(0)", "S(2)"], (3, 1, 4), "float32"))

    picture = run_threads(body, 4)[0]
    assert [line for line in picture.split("\n") if line.startswith("[")] == ["[0:2, :, :]", "[2:3, :, :]"]
    assert picture.split("\n")[-1] == "0:1 │ 2   │ 3"


@pytest.mark.parametrize("placements", [["S(0)", "S(1)"], ["P", "S(0)"], ["R", "S(2)"], ["S(2)", "S(2)"]])
def test_images_have_a_block_for_each_box(placements: list[str]) -> None:
    def body(rank: int) -> tuple[str, int]:
        layout = Layout(grid(), placements, (3, 4, 5), "float32")
        boxes = {box for at in np.ndindex(2, 2) for box in layout.boxes(at)}
        return plot_layout(layout, format="svg"), len(boxes)

    image, boxes = run_threads(body, 4)[0]
    root = ElementTree.fromstring(image)
    rects = [each for each in root if each.tag.endswith("rect")]
    assert len(rects) == boxes
    dashed = [each for each in rects if each.get("stroke-dasharray")]
    assert len(dashed) == (boxes if "P" in placements else 0)


def test_files_and_tensors(tmp_path: Path) -> None:
    def body(rank: int) -> None:
        x = distribute_tensor(np.zeros((4, 4)), grid(), ["S(0)", "S(1)"])
        if rank == 0:  # nothing is sent, so that one rank may draw alone
            plot_layout(x, file=tmp_path / "x.svg")
            plot_layout(x, file=tmp_path / "x.txt")

    run_threads(body, 4)
    assert (tmp_path / "x.svg").read_text().startswith("<svg")
    assert re.search(r"0:2 │ 0 ", (tmp_path / "x.txt").read_text())
    with pytest.raises(ArgumentError, match=r"^plot_layout: wanted a DTensor or a Layout, got a list$"):
        plot_layout([1])  # type: ignore[arg-type]
