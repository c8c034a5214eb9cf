"""The rule is a table; what it says is plain."""

from __future__ import annotations

import pytest

from shardwise.collectives.shm.place import AT_ONCE, BY_MPI, EAGER_ROOM, KINDS, ONE_COPY, STAGED
from shardwise.collectives.shm.rule import RULES, Rule, choose_path


@pytest.mark.parametrize(
    ("sent", "permitted", "path"),
    [
        (0, True, AT_ONCE),
        (100, True, AT_ONCE),
        (101, True, STAGED),
        (1001, True, ONE_COPY),
        (1001, False, STAGED),
        (100_001, True, BY_MPI),
        (100_001, False, BY_MPI),
    ],
)
def test_a_rule(sent: int, permitted: bool, path: int) -> None:
    assert choose_path(Rule(100, 1000, 100_000), sent, permitted) == path


def test_what_goes_at_once_fits_into_its_room() -> None:
    assert choose_path(Rule(1 << 40, 1 << 41), EAGER_ROOM, True) == AT_ONCE
    assert choose_path(Rule(1 << 40, 1 << 41), EAGER_ROOM + 1, True) == STAGED


def test_every_collective_has_a_rule() -> None:
    assert {*RULES, "barrier", "exchange"} == set(KINDS)
