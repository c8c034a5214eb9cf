"""Random programs of synchronous and asynchronous operations give what their sequence means."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranks.definition import BFLOAT16, inputs, part, reduced, same
from shardwise import collectives
from shardwise.collectives import ProcessGroup, Work, World

GROUPS = ((0, 1, 2, 3), (0, 1), (2, 3), (0, 2), (1, 3), (3, 1, 0))

# Groups of the same ranks, but with orders of their own; a world makes them once.
seconds: WeakKeyDictionary[World, dict[tuple[int, ...], ProcessGroup]] = WeakKeyDictionary()

Issued = tuple[Work[Any], object]


def group_of(members: tuple[int, ...], second: bool) -> ProcessGroup:
    if not second:
        return collectives.get_group(members)
    made = seconds.setdefault(collectives.get_world(), {})
    if members not in made:
        made[members] = collectives.new_group(members)
    return made[members]


def all_reduce(op: str, dtype: np.dtype[np.generic]) -> Callable[..., Issued]:
    def issue(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
        xs = inputs(group.size, (draw.choice((0, 3, 5000)),), dtype, seed=step)
        work = collectives.all_reduce(xs[place], op, group, async_op=True)  # type: ignore[call-overload]
        return work, reduced(op, xs)

    return issue


def all_gather(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    xs = inputs(group.size, (4, 2), np.dtype("f"), seed=step)
    return collectives.all_gather(xs[place], group, async_op=True), np.concatenate(xs)


def uneven_all_gather(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    sizes = [draw.randrange(4) for _ in range(group.size)]
    (whole,) = inputs(1, (sum(sizes), 2), np.dtype("d"), seed=step)
    return collectives.all_gather(part(whole, sizes, place, 0), group, sizes=sizes, async_op=True), whole


def reduce_scatter(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    xs = inputs(group.size, (group.size * 2,), np.dtype("f"), seed=step)
    want = reduced("sum", xs)[2 * place : 2 * place + 2]
    return collectives.reduce_scatter(xs[place], "sum", group, async_op=True), want


def uneven_reduce_scatter(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    sizes = [draw.randrange(4) for _ in range(group.size)]
    xs = inputs(group.size, (sum(sizes),), BFLOAT16, seed=step)
    want = part(reduced("sum", xs), sizes, place, 0)
    return collectives.reduce_scatter(xs[place], "sum", group, sizes=sizes, async_op=True), want


def all_to_all(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    rows = [[draw.randrange(3) for _ in range(group.size)] for _ in range(group.size)]
    xs = [inputs(1, (sum(row),), np.dtype("i"), seed=step + i)[0] for i, row in enumerate(rows)]
    came = [part(x, row, place, 0) for x, row in zip(xs, rows, strict=True)]
    work = collectives.all_to_all_single(
        xs[place], [row[place] for row in rows], rows[place], group, async_op=True
    )
    return work, np.concatenate(came)


def scan(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    xs = inputs(group.size, (draw.choice((3, 4000)),), np.dtype("d"), seed=step)
    if draw.random() < 0.5:
        return collectives.scan(xs[place], "sum", group, async_op=True), reduced("sum", xs[: place + 1])
    want = reduced("sum", xs[:place]) if place else np.zeros_like(xs[0])
    return collectives.exscan(xs[place], "sum", group, async_op=True), want


def broadcast(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    xs = inputs(group.size, (6,), np.dtype("f"), seed=step)
    root = draw.randrange(group.size)
    return collectives.broadcast(xs[place], group.ranks[root], group, async_op=True), xs[root]


def reduce(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    xs = inputs(group.size, (6,), np.dtype("f"), seed=step)
    root = draw.randrange(group.size)
    work = collectives.reduce(xs[place], group.ranks[root], "sum", group, async_op=True)
    return work, reduced("sum", xs) if place == root else None


def gather(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    sizes, root = [draw.randrange(4) for _ in range(group.size)], draw.randrange(group.size)
    (whole,) = inputs(1, (sum(sizes),), np.dtype("f"), seed=step)
    mine = part(whole, sizes, place, 0)
    work = collectives.gather(mine, group.ranks[root], group, sizes=sizes, async_op=True)
    return work, whole if place == root else None


def scatter(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    sizes, root = [draw.randrange(4) for _ in range(group.size)], draw.randrange(group.size)
    (whole,) = inputs(1, (sum(sizes),), np.dtype("f"), seed=step)
    work = collectives.scatter(whole, group.ranks[root], group, sizes=sizes, async_op=True)
    return work, part(whole, sizes, place, 0)


def coalesced(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    several = [inputs(group.size, (i + 1,), np.dtype("fdf"[i]), seed=step + i) for i in range(3)]
    work = collectives.all_reduce_coalesced([xs[place] for xs in several], group=group, async_op=True)
    return work, [reduced("sum", xs) for xs in several]


def barrier(group: ProcessGroup, place: int, step: int, draw: random.Random) -> Issued:
    return collectives.barrier(group, async_op=True), None


# Those that have no asynchronous form run at once.
def objects(group: ProcessGroup, place: int, step: int, draw: random.Random) -> None:
    assert collectives.all_gather_object((step, place), group) == [(step, i) for i in range(group.size)]
    given = [(step, place, i) for i in range(group.size)]
    assert collectives.all_to_all_object(given, group) == [(step, i, place) for i in range(group.size)]


KINDS: dict[str, Callable[..., Issued | None]] = {
    "all_reduce": all_reduce("sum", np.dtype("f")),
    "narrow": all_reduce("sum", BFLOAT16),
    "max": all_reduce("max", np.dtype("d")),
    "all_gather": all_gather,
    "uneven_all_gather": uneven_all_gather,
    "reduce_scatter": reduce_scatter,
    "uneven_reduce_scatter": uneven_reduce_scatter,
    "all_to_all": all_to_all,
    "scan": scan,
    "broadcast": broadcast,
    "reduce": reduce,
    "gather": gather,
    "scatter": scatter,
    "coalesced": coalesced,
    "barrier": barrier,
    "objects": objects,
}


def run_program(seed: int, length: int, n: int) -> None:
    """On one rank: issue a program that all ranks draw alike, waiting where this rank likes to."""
    shared, own = random.Random(seed), random.Random(seed * 100 + collectives.rank())
    rank = collectives.rank()
    pending: list[Issued] = []
    for step in range(length):
        kind, asynchronous = shared.choice((*KINDS, "message")), shared.random() < 0.6
        members = tuple(each for each in shared.choice(GROUPS) if each < n)
        second, draw = shared.random() < 0.3, random.Random(seed + step)
        if kind == "message":
            src, dst = shared.randrange(n), shared.randrange(n)
            xs = inputs(n, (5,), np.dtype("f"), seed=step)
            if rank == src:
                pending.append((collectives.isend(xs[src], dst, tag=step % 3), None))
            if rank == dst:
                pending.append((collectives.irecv((5,), "f", src, tag=step % 3), xs[src]))
        elif rank in members:
            issued = KINDS[kind](group_of(members, second), members.index(rank), step, draw)
            if issued is not None and asynchronous:
                pending.append(issued)
            elif issued is not None:
                check(*issued)
        own.shuffle(pending)
        while pending and own.random() < 0.4:
            check(*pending.pop())
    for each in pending:
        check(*each)


def check(work: Work[Any], want: object) -> None:
    got = work.wait()
    if isinstance(want, np.ndarray):
        same(got, np.ascontiguousarray(want))
    elif isinstance(want, list):
        for one, other in zip(got, want, strict=True):
            same(one, other)
    else:
        assert got is None


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
