"""Symmetric memory: collectives in it, peers' arrays, signals, and when it is freed."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable

import numpy as np
import pytest

from ranks.definition import BFLOAT16, inputs, reduced, same
from shardwise import collectives
from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, CollectiveMismatchError, CollectiveTimeoutError
from shardwise.collectives import SymmetricMemory, empty_symmetric

pytestmark = pytest.mark.mpi(min_size=2)

SIZES = (40_000, 300_001)


def filled(x: Array) -> Array:
    """Give a copy of `x` in symmetric memory."""
    made = empty_symmetric(x.shape, x.dtype)
    made[...] = x
    return made


def private(x: Array) -> Array:
    return x.copy()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.dtype(code) for code in "?bedF"] + [BFLOAT16], ids=str)
@pytest.mark.parametrize("result", [filled, private])
@pytest.mark.parametrize("given", [filled, private])
def test_collectives(
    given: Callable[[Array], Array], result: Callable[[Array], Array], dtype: np.dtype[np.generic], size: int
) -> None:
    rank, n = collectives.rank(), collectives.world_size()
    size = size // n * n
    xs = inputs(n, (size,), dtype)
    x = given(xs[rank])
    want = reduced("sum", xs)
    out = result(np.zeros(size, dtype))
    same(collectives.all_reduce(x, out=out), want)
    same(x, xs[rank])
    same(collectives.all_reduce(x), want)
    out = result(np.zeros(size // n, dtype))
    same(collectives.reduce_scatter(x, out=out), np.split(want, n)[rank])
    same(x, xs[rank])
    out = result(np.zeros(n * size, dtype))
    same(collectives.all_gather(x, out=out), np.concatenate(xs))
    out = result(np.zeros(size, dtype))
    same(collectives.all_to_all(x, out=out), np.concatenate([np.split(each, n)[rank] for each in xs]))
    for root in range(n):
        out = result(xs[rank])
        same(collectives.broadcast(x if rank == root else None, root, out=out), xs[root])
        out = result(np.zeros(size, dtype))
        got = collectives.reduce(x, root, out=out if rank == root else None)
        if got is not None:
            same(got, want)
        out = result(np.zeros(n * size, dtype))
        got = collectives.gather(x, root, out=out if rank == root else None)
        if got is not None:
            same(got, np.concatenate(xs))
        out = result(np.zeros(size // n, dtype))
        got = collectives.scatter(x if rank == root else None, root, out=out)
        same(got, np.split(xs[root], n)[rank])
    assert collectives.all_reduce(x, out=x) is x
    same(x, want)


def test_in_place_of_a_part_and_asynchronous() -> None:
    rank, n = collectives.rank(), collectives.world_size()
    arena = empty_symmetric(200_000)
    arena[...] = rank
    works = [
        collectives.all_reduce(part, "avg", out=part, async_op=True)
        for part in np.split(arena[20:180_020], 3)
    ]
    for work in works:
        work.wait()
    assert np.all(arena[20:180_020] == (n - 1) / 2)
    assert np.all(arena[:20] == rank)
    assert np.all(arena[180_020:] == rank)


def test_only_some_ranks_have_it() -> None:
    rank, n = collectives.rank(), collectives.world_size()
    shared = empty_symmetric(50_000, np.float64)
    x = shared if rank == 0 else np.empty(50_000)
    x[...] = rank
    assert np.all(collectives.all_reduce(x) == sum(range(n)))
    collectives.broadcast(x, 0, out=x)
    assert np.all(x == 0)


def test_one_rank_in_place_and_the_others_not() -> None:
    rank, n = collectives.rank(), collectives.world_size()
    for _ in range(5):
        x = empty_symmetric(300_000)
        x[...] = rank
        out = x if rank == 0 else np.empty(300_000, np.float32)
        assert np.all(collectives.all_reduce(x, out=out) == sum(range(n)))


def test_peers_arrays_and_signals() -> None:
    rank, n = collectives.rank(), collectives.world_size()
    x = empty_symmetric((4, 3), np.int32)
    memory = SymmetricMemory(x[1:3])
    x[...] = rank
    memory.barrier()
    for other in range(n):
        assert memory.buffer(other).shape == (2, 3)
        assert np.all(memory.buffer(other) == other)
    assert memory.buffer(rank) is memory.array
    memory.barrier()
    after, before = (rank + 1) % n, (rank - 1) % n
    for turn in range(50):
        memory.buffer(after)[...] = 100 * rank + turn
        memory.put_signal(after)
        memory.wait_signal(before)
        assert np.all(memory.array == 100 * before + turn)
        memory.put_signal(before, channel=1)
        memory.wait_signal(after, channel=1)
    assert x[0].tolist() == [rank] * 3
    with pytest.raises(CollectiveTimeoutError) as raised:
        memory.wait_signal(before, timeout=0.05)
    assert str(raised.value) == (
        f"wait_signal(src={before}, channel=0) on world, rank {rank} did not come within 0.05 s."
    )


def test_what_is_not_symmetric_is_refused() -> None:
    rank = collectives.rank()
    with pytest.raises(CollectiveError) as raised:
        SymmetricMemory(np.zeros(3))
    assert str(raised.value) == (
        f"SymmetricMemory on world, rank {rank}: the array is not in symmetric memory of this group; make it "
        f"by empty_symmetric(shape, dtype, group)."
    )
    memory = SymmetricMemory(empty_symmetric(3))
    with pytest.raises(CollectiveError, match="there is no rank 9; ranks of the group go from 0 to"):
        memory.buffer(9)
    with pytest.raises(CollectiveError, match="channel=8; choose one from 0 to 7"):
        memory.put_signal(0, channel=8)


def test_ranks_that_disagree_on_the_size() -> None:
    with pytest.raises(CollectiveMismatchError, match="ranks disagree on how much memory they share"):
        empty_symmetric(100_000 if collectives.rank() == 0 else 10)
    assert np.all(empty_symmetric(5) == 0)
    with pytest.raises(CollectiveMismatchError, match="ranks disagree on how much memory they share"):
        empty_symmetric(4 + collectives.rank())  # on one page all the same


def test_more_than_there_is_is_an_error_on_all() -> None:
    with pytest.raises(
        CollectiveError, match=r"there is not enough shared memory for \d+ bytes on each rank"
    ):
        empty_symmetric(1 << 45)
    assert np.all(empty_symmetric(5) == 0)


def test_it_is_freed_by_each_rank_for_itself() -> None:
    gc.collect()  # what other tests have left in tracebacks
    mapped, files = shared_maps(), open_files()
    kept = [empty_symmetric(100_000) for _ in range(5)]
    assert shared_maps() == mapped + 5 * collectives.world_size()
    view = kept[2][100:]
    kept.clear()
    gc.collect()
    assert shared_maps() == mapped + collectives.world_size()
    if collectives.rank() == 0:
        del view
        assert shared_maps() == mapped
    collectives.barrier()
    x = empty_symmetric(50_000)
    x[...] = 1
    assert np.all(collectives.all_reduce(x, out=x) == collectives.world_size())
    del x
    assert open_files() == files


def shared_maps() -> int:
    with open("/proc/self/maps") as maps:
        return sum("memfd:shardwise" in line for line in maps)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
