"""The world and its groups."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from shardwise import collectives
from shardwise.backend.errors import CollectiveError, LaunchError


def in_threads(n: int, body: object) -> None:
    collectives.run_threads(body, n)  # type: ignore[arg-type]


def test_a_script_alone_is_a_world_of_one_without_mpi() -> None:
    program = """
import sys
from shardwise import collectives
assert not collectives.is_initialized()
assert (collectives.rank(), collectives.world_size(), collectives.local_rank()) == (0, 1, 0)
assert collectives.is_initialized()
world = collectives.get_world()
assert (world.transport.name, world.local_size) == ("alone", 1)
assert collectives.get_group().ranks == (0,)
assert not any(name.startswith("mpi4py") for name in sys.modules)
import threading
assert threading.active_count() == 1
"""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OMPI_", "PMI", "MPI", "HYDI", "PRTE"))
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept, capture_output=True, text=True, timeout=150
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_ranks_see_themselves_and_each_other() -> None:
    def body(rank: int) -> tuple[int, ...]:
        world = collectives.get_world()
        assert collectives.get_world() is world
        assert world.hostname
        assert repr(world) == f"World(rank {rank} of 3 on {world.hostname}, threads)"
        return (collectives.rank(), collectives.world_size(), collectives.local_rank(), world.local_size)

    assert collectives.run_threads(body, 3) == [(0, 3, 0, 3), (1, 3, 1, 3), (2, 3, 2, 3)]


def test_a_world_is_its_contexts_own() -> None:
    outside = collectives.get_world()
    in_threads(2, lambda rank: None if collectives.get_world() is not outside else pytest.fail("shared"))
    assert collectives.get_world() is outside
    # A thread that nobody gave a context sees the world of the process.
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(collectives.get_world()))
    thread.start()
    thread.join(10)
    assert seen == [outside]


def test_equal_ranks_give_the_same_group() -> None:
    def body(rank: int) -> None:
        group = collectives.get_group([1, 0])
        assert collectives.get_group((1, 0)) is group
        assert collectives.get_group(np.array([1, 0])) is group
        assert collectives.get_group([0, 1]) is not group
        assert collectives.get_group() is collectives.get_group(range(3))
        assert (group.ranks, group.size, group.name) == ((1, 0), 2, "ranks 1,0")
        assert group.rank == (None if rank == 2 else 1 - rank)
        assert (rank in group) == (rank != 2)
        assert collectives.get_group().name == "world"
        assert repr(group) == f"ProcessGroup(ranks 1,0, rank {group.rank} of 2, threads)"
        assert collectives.new_group([2, 0], timeout=5.0).timeout == 5.0

    in_threads(3, body)


def test_an_order_of_ranks_is_an_order_of_parts() -> None:
    def body(rank: int) -> list[int]:
        return collectives.all_gather(np.array([rank]), collectives.get_group([2, 0, 1])).tolist()

    assert collectives.run_threads(body, 3) == [[2, 0, 1]] * 3


@pytest.mark.parametrize("ranks", [[], [0, 0], [2], [-1], [0, 5]], ids=str)
def test_a_group_that_cannot_be(ranks: list[int]) -> None:
    def body(rank: int) -> None:
        with pytest.raises(CollectiveError) as caught:
            collectives.get_group(ranks)
        assert str(caught.value) == (
            f"rank {rank}: get_group wants distinct ranks from 0 to 1, at least one; got {ranks}."
        )

    in_threads(2, body)


def test_only_members_may_call() -> None:
    def body(rank: int) -> None:
        group = collectives.get_group([0, 1])
        if rank < 2:
            collectives.barrier(group)
            return
        with pytest.raises(CollectiveError) as caught:
            collectives.all_reduce(np.ones(3), group=group)
        assert str(caught.value) == (
            "all_reduce on ranks 0-1: rank 2 is not a member; only ranks 0-1 may call it."
        )

    in_threads(3, body)


def test_a_group_is_not_pickled_and_is_its_own_copy() -> None:
    group = collectives.get_group()
    with pytest.raises(TypeError) as caught:
        pickle.dumps(group)
    assert str(caught.value) == (
        f"cannot pickle {group!r}: a group belongs to the running world. Pickle group.ranks, and call "
        f"shardwise.collectives.get_group(ranks) where it is read."
    )
    assert copy.deepcopy({"group": group})["group"] is group
    assert copy.copy(group) is group


def test_init_says_what_it_cannot_do() -> None:
    def body(rank: int) -> None:
        world = collectives.init()
        assert collectives.init() is world
        with pytest.raises(LaunchError) as caught:
            collectives.init(transport="mpi")
        assert str(caught.value) == (
            f"init(transport='mpi'): rank {rank} is already in a world of 2 over 'threads'; "
            f"call shutdown() on all ranks first."
        )

    in_threads(2, body)


def test_shutdown_and_again() -> None:
    def body(rank: int) -> None:
        for _ in range(3):
            group = collectives.get_group()
            assert collectives.all_reduce(1).item() == 2
            collectives.shutdown()
            assert not collectives.is_initialized()
            with pytest.raises(CollectiveError) as caught:
                collectives.barrier(group)
            assert str(caught.value) == (
                "barrier on world: the world that it belonged to was shut down; call get_group() again."
            )
            collectives.shutdown()

    in_threads(2, body)


@pytest.mark.mpi(min_size=1)
def test_mpi_world() -> None:
    world, n = collectives.get_world(), collectives.world_size()
    assert world.transport.name == ("mpi" if n > 1 else "alone")
    assert collectives.all_gather_object(world.local_rank) == list(range(n))
    assert world.local_size == n
    assert collectives.all_gather_object((world.rank, world.size)) == [(rank, n) for rank in range(n)]


@pytest.mark.mpi(min_size=2)
def test_mpi_shutdown_and_again() -> None:
    for _ in range(3):
        before = collectives.get_world()
        pair = collectives.get_group([1, 0])
        if pair.rank is not None:
            assert collectives.all_reduce(pair.rank, group=pair).item() == 1
        collectives.shutdown()
        assert not collectives.is_initialized()
        assert collectives.get_world() is not before
        assert collectives.all_reduce(1).item() == collectives.world_size()


@pytest.mark.mpi(min_size=2)
def test_members_alone_make_a_group() -> None:
    """The others need not even know that there is one."""
    members = [collectives.world_size() - 1, 0]
    if collectives.rank() in members:
        assert collectives.all_gather_object(collectives.rank(), collectives.get_group(members)) == members
