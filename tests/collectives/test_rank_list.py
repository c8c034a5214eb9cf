"""Ranks are written in one way, in every message."""

from __future__ import annotations

import pytest

from shardwise.collectives.rank_list import rank_list, rank_numbers


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([7], "rank 7"), ([0, 1], "ranks 0-1"), ([3, 1, 2, 9, 5, 6], "ranks 1-3,5-6,9"), ([], "ranks ")],
)
def test_ranks_are_written_briefly_and_rising(ranks: list[int], text: str) -> None:
    assert rank_list(ranks) == text


@pytest.mark.parametrize(
    ("ranks", "text"), [((4,), "4"), ((0, 1, 2, 5), "0-2,5"), ((2, 0, 1), "2,0-1"), ((1, 0), "1,0")]
)
def test_numbers_keep_their_order(ranks: tuple[int, ...], text: str) -> None:
    assert rank_numbers(ranks) == text
