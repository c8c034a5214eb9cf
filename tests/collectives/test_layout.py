"""Shapes by the table, and the way from a dim to the ranks' axis and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.collectives import COLLECTIVES
from shardwise.collectives.layout import concatenated, divided, join, split

shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


@given(shapes, st.integers(1, 4), st.data())
def test_split_and_join_are_inverse(shape: tuple[int, ...], n: int, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    whole = concatenated(shape, n, dim)
    x = np.arange(np.prod(whole)).reshape(whole)
    rows = split(x, n, dim)
    assert rows.flags.c_contiguous
    assert [row.tolist() for row in rows] == [part.tolist() for part in np.split(x, n, dim)]
    assert np.array_equal(join(rows, dim), x)
    assert divided(whole, n, dim) == shape


def test_dim_0_is_not_copied() -> None:
    x = np.zeros((4, 3))
    assert np.shares_memory(split(x, 2, 0), x)
    assert np.shares_memory(join(split(x, 2, 0), 0), x)


def test_adjoints_come_in_pairs() -> None:
    for name, line in COLLECTIVES.items():
        assert line.name == name
        assert COLLECTIVES[line.adjoint].adjoint == name


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("all_reduce", 150),
        ("all_gather", 300),
        ("reduce_scatter", 75),
        ("all_to_all", 75),
        ("broadcast", 100),
        ("reduce", 100),
        ("gather", 100),
        ("scatter", 75),
        ("barrier", 0),
        ("send", 100),
        ("recv", 0),
    ],
)
def test_bytes_of_100_among_4(name: str, moved: int) -> None:
    assert COLLECTIVES[name].moved(100, 4) == moved
    if name != "send":
        assert COLLECTIVES[name].moved(100, 1) == 0
