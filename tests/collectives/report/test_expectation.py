"""`expect`: what passes, what is said where it does not, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shardwise as sw
from shardwise import collectives as c
from shardwise.backend.shape import ShapeArray
from shardwise.errors import ArgumentError, ExpectationError

X = np.ones((4, 2), np.float32)  # 32 bytes


def test_what_is_as_expected_passes() -> None:
    def body(rank: int) -> None:
        with sw.expect(
            all_reduce=2, all_gather=0, max_bytes=64, total_bytes=64, implicit=1, others=1
        ) as moved:
            sw.all_reduce(X)
            with c.implicit():
                sw.all_reduce(X)
            sw.barrier()
        assert len(moved) == 3
        with sw.expect(barrier=1):
            sw.barrier()
            sw.all_reduce(X)  # nothing was said of it
        with sw.expect(all_gather_object=1, others=0):
            c.all_gather_object("x")
        with sw.expect():
            pass

    c.run_threads(body, 2)


def _two_sums_and_a_barrier() -> None:
    sw.all_reduce(X)
    sw.all_reduce(X)
    sw.barrier()


def test_what_differs_is_said_with_the_table() -> None:
    def body(rank: int) -> str:
        wanted = sw.expect(all_reduce=1, broadcast=1, max_bytes=48, total_bytes=0, implicit=1, others=0)
        with pytest.raises(ExpectationError) as caught, wanted:
            _two_sums_and_a_barrier()
        return f"{caught.value}"

    for rank, said in enumerate(c.run_threads(body, 2)):
        first, *table = said.splitlines()
        assert first == (
            f"expect on rank {rank} of 2: all_reduce ran twice, wanted once; broadcast ran never, wanted "
            "once; others ran once (barrier once), wanted never; 0 were implicit, wanted 1; 64 bytes had to "
            "be sent, wanted at most 48; 64 bytes had to be sent, wanted 0. This is what moved; change the "
            "code, or what is expected of it:"
        )
        assert [line.split()[:2] for line in table] == [
            ["times", "op"],
            ["1", "all_reduce"],
            ["1", "all_reduce"],
            ["1", "barrier"],
            ["3", "total"],
        ]
        assert table[1].endswith(f"{Path(__file__).name}:{table[1].rpartition(':')[2]}")


def test_it_is_an_assertion_that_failed() -> None:
    with pytest.raises(AssertionError), sw.expect(barrier=2):
        sw.barrier()


def test_an_exception_passes_through() -> None:
    with pytest.raises(KeyError), sw.expect(all_reduce=5):
        raise KeyError("mine")


def test_blocks_nest() -> None:
    with sw.expect(barrier=2), sw.expect(barrier=2, all_reduce=1, others=0):
        sw.barrier()
        with sw.expect(all_reduce=1, others=0), sw.explain() as moved:
            sw.all_reduce(X)
        sw.barrier()
    assert len(moved) == 1


def test_a_dry_run_is_counted() -> None:
    def body(rank: int) -> None:
        with sw.expect(all_reduce=1, total_bytes=8 * 10**12, others=0):
            sw.all_reduce(ShapeArray((2, 10**12), np.float32))  # type: ignore[call-overload]

    c.run_threads(body, 2)


def test_ranks_expect_for_themselves() -> None:
    def body(rank: int) -> None:
        with sw.expect(send=1 - rank, recv=rank):
            if rank == 0:
                c.send(X, 1)
            else:
                c.recv((4, 2), "f", 0)

    c.run_threads(body, 2)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"allreduce": 1}, "expect: there is no op 'allreduce'; did you mean 'all_reduce'?"),
        ({"all_reduce": -1}, "expect: all_reduce=-1; wanted a number that is not negative."),
        ({"max_bytes": -1}, "expect: max_bytes=-1; wanted a number that is not negative."),
        ({"implicit": 0.5}, "expect: implicit=0.5; wanted a number that is not negative."),
    ],
)
def test_what_cannot_be_expected_is_said_at_once(wanted: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentError) as caught, sw.expect(**wanted):
        pytest.fail("the block must not run")
    assert f"{caught.value}" == message
