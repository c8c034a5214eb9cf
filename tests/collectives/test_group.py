"""Groups: of their own, parted, ordered, made at the same time, by rank order."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.errors import CollectiveError, LaunchError, ShapeError
from shardwise.collectives.control import Message
from shardwise.collectives.group_tag import GroupTags


def check_new_groups() -> None:
    """On one rank of the world: groups of equal ranks have lanes and channels of their own."""
    rank, n = c.rank(), c.world_size()
    first, second = c.new_group(), c.new_group(timeout=7.0)
    assert first is not c.get_group()
    assert first is not second
    assert (first.ranks, first.size, first.rank) == (tuple(range(n)), n, rank)
    assert first.name == f"world#{int(first.label[1:])}"
    assert int(second.label[1:]) == int(first.label[1:]) + 1
    assert second.timeout == 7.0
    # Used in another order by every rank: each waits for its own.
    groups = [c.get_group(), first, second]
    order = [groups[(rank + i) % 3] for i in range(3)]
    works = [(group, c.all_reduce(np.array(rank), group=group, async_op=True)) for group in order]
    for _, work in reversed(works):
        assert work.wait() == n * (n - 1) // 2
    only = c.new_group([n - 1])
    assert (only.rank is None) == (rank != n - 1)
    if only.rank is not None:
        assert c.all_gather(np.array([3]), only).tolist() == [3]


def check_split() -> None:
    rank, n = c.rank(), c.world_size()
    world = c.get_group()
    part = world.split(rank % 2, key=-rank, timeout=5.0)
    assert part is not None
    assert part.ranks == tuple(range(n)[rank % 2 :: 2])[::-1]
    assert part.timeout == 5.0
    assert part is c.get_group(part.ranks)
    assert part.global_rank(0) == max(part.ranks)
    assert part.group_rank(rank) == part.rank
    assert c.all_gather(np.array([rank]), part).tolist() == list(part.ranks)
    assert world.split(None if rank else 3) is (c.get_group([0]) if rank == 0 else None)
    told = world.split([place // 2 for place in range(n)])
    assert told is c.get_group([place for place in range(n) if place // 2 == rank // 2])
    assert world.split([None] * n) is None
    # the group parts, and not the world
    if told is not None and told.size == 2:
        single = told.split(rank)
        assert single is not None
        assert single.ranks == (rank,)


def check_pytorch_names() -> None:
    rank, n = c.rank(), c.world_size()
    group = c.get_group(range(n - 1, -1, -1))
    assert (c.get_rank(), c.get_world_size()) == (rank, n)
    assert (c.get_rank(group), c.get_world_size(group)) == (n - 1 - rank, n)
    assert c.get_global_rank(group, 0) == n - 1
    assert c.get_group_rank(group, 0) == n - 1
    assert c.get_process_group_ranks() == list(range(n))
    assert c.get_process_group_ranks(group) == list(range(n))[::-1]
    if n > 1:
        alone = c.get_group([0])
        assert (c.get_rank(alone), c.get_world_size(alone)) == ((0, 1) if rank == 0 else (-1, -1))
    own, groups = c.new_subgroups(1)
    assert own.ranks == (rank,)
    assert [each.ranks for each in groups] == [(i,) for i in range(n)]
    own, groups = c.new_subgroups()
    assert own.ranks == tuple(range(n))
    part, parts = c.new_subgroups_by_enumeration([range(n - 1)])
    assert (part is None) == (rank == n - 1 or n == 1) or n == 1
    assert len(parts) == 1
    half = c.split_group(group, [[0]], timeout=3.0)
    assert (half is None) == (rank != n - 1)
    if half is not None:
        assert (half.ranks, half.timeout) == ((n - 1,), 3.0)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_on_threads(n: int) -> None:
    def body(rank: int) -> None:
        check_new_groups()
        check_split()
        check_pytorch_names()

    c.run_threads(body, n)


@pytest.mark.mpi(min_size=2)
def test_over_mpi() -> None:
    check_new_groups()
    check_split()
    check_pytorch_names()


@pytest.mark.mpi(min_size=3)
def test_groups_made_at_the_same_time_in_different_orders() -> None:
    """Each rank makes ten groups at once, all of which overlap, in an order of its own."""
    rank, n = c.rank(), c.world_size()
    groups = [c.new_group(np.roll(np.arange(n), i)) for i in range(10)]
    works = {}
    for i in np.random.default_rng(rank).permutation(10).tolist():
        works[i] = c.all_gather(np.array([rank]), groups[i], async_op=True)
    for i in np.random.default_rng(n + rank).permutation(10).tolist():
        assert works[i].wait().tolist() == np.roll(np.arange(n), i).tolist()


class Plane:
    """A control plane of ranks whose questions are answered at once."""

    def __init__(self, rank: int, planes: list[Plane]) -> None:
        self.rank = rank
        self._planes = planes
        planes.append(self)

    def on(self, kind: str, handler: object) -> None:
        self.handler = handler

    def ask(self, ranks: object, kind: str, body: dict[str, object], timeout: float) -> dict[int, Message]:
        self._planes[0].handler(Message(self.rank, kind, body, bytearray()))  # type: ignore[operator, arg-type]
        return {0: Message(0, kind, self._planes[0].answered, bytearray())}  # type: ignore[arg-type]

    def answer(self, message: Message, body: dict[str, object]) -> None:
        self.answered = body


def test_tags_of_groups_under_way_differ() -> None:
    planes: list[Plane] = []
    tags = [GroupTags(Plane(rank, planes)) for rank in range(3)]  # type: ignore[arg-type]
    assert tags[1].tag((0, 1), "") == 0
    assert tags[2].tag((1, 2), "") == 1
    assert tags[0].tag((0, 1), "") == 0
    assert tags[0].tag((0, 1), "#1") == 2
    assert tags[1].tag((1, 2), "") == 1
    # all of its members have asked: the next time it is another group
    assert tags[2].tag((1, 2), "") == 3
    assert tags[1].tag((0, 1), "#1") == 2


def test_a_thread_of_its_own_takes_a_group_of_its_own() -> None:
    def body(rank: int) -> None:
        own = c.new_group()
        seen: list[int] = []

        def log() -> None:
            seen.extend(int(c.all_reduce(np.array(1), group=own)) for _ in range(20))

        thread = threading.Thread(target=log)
        thread.start()
        for _ in range(20):
            c.all_reduce(np.array(2))
        thread.join(20)
        assert seen == [2] * 20

    c.run_threads(body, 2)


def test_what_cannot_be_parted() -> None:
    def body(rank: int) -> None:
        world = c.get_group()
        with pytest.raises(ShapeError) as colors:
            world.split([0])
        assert str(colors.value) == (
            f"split on world, rank {rank}: got 1 colors; wanted 2, one for each member."
        )
        with pytest.raises(CollectiveError) as place:
            world.global_rank(2)
        assert str(place.value) == (
            f"global_rank on world, rank {rank}: rank 2 of a group of 2; choose one from 0 to 1."
        )
        with pytest.raises(CollectiveError) as member:
            c.get_group([rank]).group_rank(5)
        assert str(member.value) == (
            f"group_rank on ranks {rank}, rank {rank}: global rank 5 is not one of its ranks [{rank}]."
        )
        with pytest.raises(CollectiveError) as size:
            c.new_subgroups(3)
        assert str(size.value) == (
            f"new_subgroups on world, rank {rank}: 2 ranks do not part into groups of 3; "
            f"choose a group_size that divides 2."
        )
        with pytest.raises(CollectiveError) as twice:
            c.new_subgroups_by_enumeration([[0], [1, 0]])
        assert str(twice.value) == (
            f"rank {rank}: new_subgroups_by_enumeration wants groups without a common rank; "
            f"rank 0 is in two of [[0], [1, 0]]."
        )
        with pytest.raises(CollectiveError) as cannot:
            c.new_group([0, 0])
        assert str(cannot.value) == (
            f"rank {rank}: new_group wants distinct ranks from 0 to 1, at least one; got [0, 0]."
        )

    c.run_threads(body, 2)


def test_what_the_environment_may_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DETERMINISTIC", "by-rank-order")
    assert c.run_threads(lambda rank: c.get_group().deterministic, 2) == ["by-rank-order"] * 2
    monkeypatch.setenv("SHARDWISE_DETERMINISTIC", "yes")

    def body(rank: int) -> None:
        with pytest.raises(LaunchError) as caught:
            c.init()
        assert str(caught.value) == "SHARDWISE_DETERMINISTIC='yes'; wanted 'by-rank-order', or nothing."

    c.run_threads(body, 1)


def test_a_world_keeps_its_order() -> None:
    def body(rank: int) -> None:
        assert c.init(deterministic="by-rank-order").everyone.deterministic == "by-rank-order"
        assert c.new_group([0]).deterministic == "by-rank-order"

    c.run_threads(body, 2)

    def late(rank: int) -> None:
        c.init()
        assert c.new_group(deterministic="by-rank-order").deterministic == "by-rank-order"
        with pytest.raises(LaunchError) as caught:
            c.init(deterministic="by-rank-order")
        assert str(caught.value) == (
            f"init(deterministic='by-rank-order'): rank {rank} is already in a world that is not; "
            f"call init before the first use, or shutdown() on all ranks first."
        )

    c.run_threads(late, 2)
