"""Random programs of synchronous and asynchronous operations give what their sequence means."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranks.definition import BFLOAT16, inputs, reduced, same
from shardwise import collectives
from shardwise.backend.array import Array
from shardwise.collectives import Work

GROUPS = ((0, 1, 2, 3), (0, 1), (2, 3), (0, 2), (1, 3), (3, 1, 0))
KINDS = ("all_reduce", "narrow", "max", "all_gather", "reduce_scatter", "broadcast", "object", "message")


def run_program(seed: int, length: int, n: int) -> None:
    """On one rank: issue a program that all ranks draw alike, waiting where this rank likes to."""
    shared, own = random.Random(seed), random.Random(seed * 100 + collectives.rank())
    rank = collectives.rank()
    pending: list[tuple[Work[Array], Array]] = []
    for step in range(length):
        kind, asynchronous = shared.choice(KINDS), shared.random() < 0.6
        members = [each for each in shared.choice(GROUPS) if each < n]
        place = members.index(rank) if rank in members else None
        if kind == "message":
            src, dst = shared.randrange(n), shared.randrange(n)
            xs = inputs(n, (5,), np.dtype("f"), seed=step)
            if rank == src:
                pending.append((collectives.isend(xs[src], dst, tag=step % 3), None))  # type: ignore[arg-type]
            if rank == dst:
                pending.append((collectives.irecv((5,), "f", src, tag=step % 3), xs[src]))
        elif place is not None:
            issue(kind, asynchronous, members, place, step, pending)
        own.shuffle(pending)
        while pending and own.random() < 0.4:
            check(*pending.pop())
    for each in pending:
        check(*each)


def issue(
    kind: str,
    asynchronous: bool,
    members: list[int],
    place: int,
    step: int,
    pending: list[tuple[Work[Array], Array]],
) -> None:
    group, size = collectives.get_group(members), len(members)
    xs = inputs(size, (size * 2,), BFLOAT16 if kind == "narrow" else np.dtype("f"), seed=step)
    x = xs[place]
    if kind == "object":
        assert collectives.all_gather_object((step, place), group) == [(step, i) for i in range(size)]
        return
    if kind in ("all_reduce", "narrow", "max"):
        op = "max" if kind == "max" else "sum"
        work, want = collectives.all_reduce(x, op, group, async_op=True), reduced(op, xs)
    elif kind == "all_gather":
        work, want = collectives.all_gather(x, group, async_op=True), np.concatenate(xs)
    elif kind == "reduce_scatter":
        work = collectives.reduce_scatter(x, "sum", group, async_op=True)
        want = reduced("sum", xs)[2 * place : 2 * place + 2]
    else:
        work, want = collectives.broadcast(x, members[-1], group, async_op=True), xs[-1]
    if asynchronous:
        pending.append((work, want))
    else:
        check(work, want)


def check(work: Work[Array], want: Array | None) -> None:
    got = work.wait()
    if want is not None:
        same(got, want)


@settings(max_examples=60)
@given(st.integers(0, 2**20), st.integers(1, 4))
def test_on_threads(seed: int, n: int) -> None:
    collectives.run_threads(lambda rank: run_program(seed, 25, n), n)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("seed", range(12))
def test_over_mpi(seed: int) -> None:
    run_program(seed, 40, collectives.world_size())


@pytest.mark.mpi(min_size=4)
def test_groups_do_not_wait_for_each_other() -> None:
    """Rows and columns of a 2 x 2 mesh, used in another order by every rank."""
    rank = collectives.rank()
    row = collectives.get_group([rank - rank % 2, rank - rank % 2 + 1])
    column = collectives.get_group([rank % 2, rank % 2 + 2])
    for turn in range(20):
        groups = [row, column] if (rank + turn) % 2 else [column, row]
        works = [
            (group, collectives.all_reduce(np.full(3, rank), group=group, async_op=True)) for group in groups
        ]
        for group, work in reversed(works):
            assert work.wait().tolist() == [sum(group.ranks)] * 3
