"""Symmetric memory of ranks that are threads, and of one that is alone."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pytest

import shardwise as sw
from shardwise import collectives
from shardwise.backend.errors import CollectiveError, CollectiveMismatchError, CollectiveTimeoutError
from shardwise.collectives import SymmetricMemory, empty_symmetric, run_threads


def use(rank: int) -> None:
    n = collectives.world_size()
    assert collectives.shares_memory()
    x = empty_symmetric((4, 3), np.int32)
    memory = SymmetricMemory(x[1:3])
    x[...] = rank
    memory.barrier()
    for other in range(n):
        assert np.all(memory.buffer(other) == np.full((2, 3), other))
    assert memory.buffer(rank) is memory.array
    memory.barrier()
    after, before = (rank + 1) % n, (rank - 1) % n
    for turn in range(20):
        memory.buffer(after)[...] = 100 * rank + turn
        memory.put_signal(after)
        memory.wait_signal(before)
        assert np.all(memory.array == 100 * before + turn)
        memory.put_signal(before, channel=1)
        memory.wait_signal(after, channel=1)
    assert x[0].tolist() == [rank] * 3
    began = time.monotonic()
    with pytest.raises(
        CollectiveTimeoutError, match=r"^wait_signal\(src=\d, channel=0\) on world, rank \d did not"
    ):
        memory.wait_signal(before, timeout=0.05)
    assert time.monotonic() - began < 5
    assert np.all(collectives.all_reduce(x, out=x)[0] == n * (n - 1) // 2)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_peers_arrays_and_signals(n: int) -> None:
    run_threads(use, n)


def test_tensors_lie_there_too() -> None:
    def work(rank: int) -> float:
        x = sw.as_tensor(empty_symmetric(3))
        SymmetricMemory(x).buffer(1 - rank)[1] = rank + 1
        collectives.barrier()
        return float(x.sum().item())

    assert run_threads(work, 2) == [2.0, 1.0]


def test_groups_have_memory_of_their_own() -> None:
    def work(rank: int) -> None:
        group = collectives.new_group([2, 0])
        if rank == 1:
            return
        x, y = empty_symmetric(5, np.float64, group), empty_symmetric(0, np.float64, group)
        x[...] = rank
        memory = SymmetricMemory(x, group)
        memory.barrier()
        assert np.all(memory.buffer(0) == 2)
        assert SymmetricMemory(y, group).buffer(1).size == 0
        memory.barrier()

    run_threads(work, 3)


def test_what_is_not_symmetric_is_refused() -> None:
    def work(rank: int) -> None:
        with pytest.raises(CollectiveError) as raised:
            SymmetricMemory(np.zeros(3))
        assert str(raised.value) == (
            f"SymmetricMemory on world, rank {rank}: the array is not in symmetric memory of this group; "
            f"make it by empty_symmetric(shape, dtype, group)."
        )
        with pytest.raises(CollectiveError, match="the array is not in symmetric memory of this group"):
            SymmetricMemory(empty_symmetric(3).copy())
        with pytest.raises(CollectiveMismatchError, match="ranks disagree on what they run together"):
            empty_symmetric(10 + rank)
        with pytest.raises(
            CollectiveError, match=r"not enough memory for \d+ bytes on each rank; use smaller"
        ):
            empty_symmetric(1 << 60)
        assert np.all(empty_symmetric(5) == 0)

    run_threads(work, 2)


def test_memory_goes_with_the_last_array_of_each_rank() -> None:
    def work(rank: int) -> None:
        x = empty_symmetric(100)
        region = weakref.ref(SymmetricMemory(x).buffer(0).base)
        view = x[50:]
        del x
        gc.collect()
        assert SymmetricMemory(view).buffer(1 - rank).shape == (50,)
        collectives.barrier()
        del view
        collectives.barrier()
        gc.collect()
        assert region() is None

    run_threads(work, 2)


def test_a_rank_that_returns_is_not_waited_for() -> None:
    def work(rank: int) -> None:
        memory = SymmetricMemory(empty_symmetric(1))
        if rank == 0:
            memory.wait_signal(1)  # it was sent before the other returned
            with pytest.raises(CollectiveError, match="but rank 1 has returned without it"):
                memory.wait_signal(1)
        else:
            memory.put_signal(0)

    run_threads(work, 2)
