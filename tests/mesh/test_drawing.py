"""Pictures of meshes, line by line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shardwise.collectives import get_world, run_threads
from shardwise.mesh import init_device_mesh
from shardwise.mesh.drawing import draw_grid

ONE = ["here"] * 2000

PICTURES = [
    (
        (3,),
        ("dp",),
        """
dp  0  1  2
───────────
    0  1  2""",
    ),
    (
        (2, 6),
        ("dp", "tp"),
        """
dp │ tp   0   1   2   3   4   5
───┼───────────────────────────
 0 │      0   1   2   3   4   5
 1 │      6   7   8   9  10  11""",
    ),
    (
        (2, 2, 2),
        ("pp", "dp", "t"),
        """
pp dp │ t  0  1
──────┼────────
 0  0 │    0  1
    1 │    2  3
 1  0 │    4  5
    1 │    6  7""",
    ),
    (
        (2, 1, 1, 1, 2),
        ("a", "b", "c", "d", "e"),
        """
a=0, b=0
c d │ e  0  1
────┼────────
0 0 │    0  1

a=1, b=0
c d │ e  0  1
────┼────────
0 0 │    2  3""",
    ),
]


@pytest.mark.parametrize(("shape", "names", "picture"), PICTURES)
def test_pictures(shape: tuple[int, ...], names: tuple[str, ...], picture: str) -> None:
    assert "\n" + draw_grid(np.arange(np.prod(shape)).reshape(shape), names, ONE) == picture


def test_hosts_are_marked() -> None:
    hosts = ["one/5f/1", "two/5f/1", "one/5f/1", "two/5f/2"]
    assert draw_grid(np.array([[3, 0], [1, 2]]), ("dp", "tp"), hosts) == (
        "dp │ tp  0    1\n"
        "───┼─────────────\n"
        " 0 │     3 c  0 a\n"
        " 1 │     1 b  2 a\n"
        "\n"
        "a  one  ranks 0,2\n"
        "b  two  rank 1\n"
        "c  two  rank 3"
    )


def test_large_meshes_are_shown_by_their_ends() -> None:
    hosts = [f"n{rank % 30}" for rank in range(2000)]
    picture = draw_grid(np.arange(2000).reshape(50, 2, 20), ("pp", "dp", "tp"), hosts)
    lines = picture.split("\n")
    assert len(lines) == 2 + 12 * 2 + 1 + 2 * 2 + 1 + 15
    assert max(map(len, lines)) <= 140
    assert [line[:5].split() for line in lines[2:4]] == [["0", "0"], ["1"]]
    assert lines[26].split() == ["…", "…", "│"]
    assert lines[-1] == "ad  n29  ranks 29,59,89,119,149,179,209,239,269,299,329,359,389,419,…"
    [line] = [line for line in lines if line.startswith("49  0")]
    assert line.split("…")[1].split() == ["1978", "ac", "1979", "ad"]
    many = draw_grid(np.arange(100).reshape(25, 1, 2, 2), ("a", "b", "c", "d"), ONE)
    assert many.count("a=") == 14
    assert "\n\n…\n\na=23\n" in many


def test_a_mesh_draws_itself_alike_on_all_ranks() -> None:
    def one(rank: int) -> Any:
        mesh = init_device_mesh("cpu", (2, 2))
        get_world().hosts = ("x/1", "x/1", "y/1", "y/1")
        return mesh.draw(), mesh.flatten().draw()

    pictures = run_threads(one, 4)
    assert len(set(pictures)) == 1
    assert pictures[0][0] == (
        "0 │ 1  0    1\n──┼────────────\n0 │    0 a  1 a\n1 │    2 b  3 b\n\na  x  ranks 0-1\nb  y  ranks 2-3"
    )
    assert pictures[0][1].startswith("0  0    1    2    3\n")
