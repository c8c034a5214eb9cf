"""Groups on one host: every way that an operation can go, in every dtype, against the definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from ranks.definition import BFLOAT16, DTYPES, check_movements, check_reductions, inputs, reduced, same, takes
from shardwise import collectives
from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveMismatchError, CollectiveTimeoutError
from shardwise.collectives.reduction import REDUCTIONS
from shardwise.collectives.shm.channel import ShmChannel
from shardwise.collectives.shm.rule import RULES, Rule

pytestmark = pytest.mark.mpi(min_size=2)

WAYS: Mapping[str, Rule] = {
    "at once": Rule(1 << 15, 0),
    "staged": Rule(-1, 1 << 40),
    "by one copy": Rule(-1, -1, 1 << 40),
    "laid": Rule(-1, 1 << 40, laid=0, laid_whole=0),
    "by MPI": Rule(-1, -1),
}


def channel() -> ShmChannel:
    collectives.barrier()
    found = collectives.get_group().channel
    assert isinstance(found, ShmChannel)
    return found


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have all collectives go one way."""
    ours = channel()
    ours.follow(dict.fromkeys(RULES, WAYS[request.param]))
    yield request.param
    ours.follow(RULES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: np.dtype[np.generic], way: str) -> None:
    for shape in ((2, 3), (0,), (1,)):
        for op in REDUCTIONS:
            if takes(op, dtype):
                check_reductions(dtype, op, shape)
        check_movements(dtype, shape)


@pytest.mark.parametrize("dtype", [np.dtype(code) for code in "?befdgF"] + [BFLOAT16], ids=str)
@pytest.mark.parametrize("nbytes", [64, 9000, 300_001, 3_000_000])
def test_sizes(nbytes: int, dtype: np.dtype[np.generic], way: str) -> None:
    """One chunk, several, and those that ranks cannot share evenly."""
    rank, n = collectives.rank(), collectives.world_size()
    if way == "at once" and nbytes * n > 1 << 15:
        nbytes = (1 << 15) // n  # the most that goes so
    size = max(1, nbytes // dtype.itemsize)
    xs = inputs(n, (size,), dtype)
    wide = (
        inputs(n, (n * size // n * n,), dtype, seed=1) if way != "at once" else inputs(n, (n,), dtype, seed=1)
    )
    for op in ("sum", "max", "avg"):
        if takes(op, dtype):
            same(collectives.all_reduce(xs[rank], op), reduced(op, xs))
            got = collectives.reduce(xs[rank], n - 1, op)
            if got is not None:
                same(got, reduced(op, xs))
            same(collectives.reduce_scatter(wide[rank], op), np.split(reduced(op, wide), n)[rank])
    same(collectives.all_gather(xs[rank]), np.concatenate(xs))
    same(collectives.broadcast(xs[rank], n - 1), xs[-1])
    same(collectives.all_to_all(wide[rank]), np.concatenate([np.split(x, n)[rank] for x in wide]))
    same(collectives.scatter(wide[rank], 0), np.split(wide[0], n)[rank])
    gathered = collectives.gather(xs[rank], 0)
    if gathered is not None:
        same(gathered, np.concatenate(xs))


def test_sums_are_in_rank_order_and_equal_everywhere(way: str) -> None:
    rank, n = collectives.rank(), collectives.world_size()
    rng = np.random.default_rng(0)
    for size in (7, 1000, 100_003):
        if way == "at once" and size > 1000:
            continue
        xs = [rng.standard_normal(size).astype(np.float32) for _ in range(n)]
        total = collectives.all_reduce(xs[rank])
        everyone = collectives.all_gather_object(total.tobytes())
        assert len(set(everyone)) == 1
        if way == "at once" or way == "staged":
            want = xs[0]
            for x in xs[1:]:
                want = want + x
            same(total, want)


@pytest.mark.parametrize("op", ["sum", "min", "max", "prod"])
def test_nan_and_infinity_go_through(op: collectives.Reduction) -> None:
    rank, n = collectives.rank(), collectives.world_size()
    xs = [np.array([1.0, 2.0, np.inf, -np.inf, 5.0], np.float32) for _ in range(n)]
    xs[n - 1][0] = np.nan
    xs[0][1] = np.nan
    for dtype in (np.float32, np.float64, np.float16):
        given = [x.astype(dtype) for x in xs]
        got, want = collectives.all_reduce(given[rank], op), reduced(op, given)
        assert np.array_equal(got, want, equal_nan=True)


def test_many_after_each_other() -> None:
    """Rooms are used by turns; what was read late must not have been written early."""
    rank, n = collectives.rank(), collectives.world_size()
    channel()
    for turn in range(300):
        size = (3, 700, 5000, 40_000)[turn % 4]
        x = np.full(size, rank + turn, np.float32)
        got = collectives.all_reduce(x) if turn % 3 else collectives.all_gather(x).reshape(n, size).sum(0)
        assert np.all(got == sum(range(n)) + n * turn)
        if turn % 5 == 0:
            root = turn % n
            got = collectives.broadcast(np.full(size, rank, np.int16), root)
            assert np.all(got == root)


def test_ranks_that_disagree_are_told_at_once() -> None:
    rank = collectives.rank()
    channel()
    x = np.ones(3, np.float32)
    call = collectives.all_reduce if rank == 0 else collectives.all_gather
    with pytest.raises(CollectiveMismatchError) as raised:
        call(x)
    other = max(rank, 1)
    assert str(raised.value) == (
        "ranks disagree on what they run together: rank 0 calls all_reduce(float32, 3 elements, op='sum'), "
        f"rank {other} calls all_gather(float32, 3 elements)."
    )
    with pytest.raises(CollectiveMismatchError) as raised:
        collectives.broadcast(np.ones(3 if rank == 0 else 4, np.float64), 0)
    assert str(raised.value) == (
        "ranks disagree on what they run together: rank 0 calls broadcast(float64, 3 elements, src=0), "
        f"rank {other} calls broadcast(float64, 4 elements, src=0)."
    )
    # and go on
    assert collectives.all_reduce(x).tolist() == [collectives.world_size()] * 3


def test_a_rank_that_comes_late_is_waited_for_and_may_be_given_up() -> None:
    rank = collectives.rank()
    channel()
    x = np.ones(50_000, np.float32)
    if rank == 1:
        for other in range(collectives.world_size()):
            if other != 1:
                collectives.recv((1,), np.int8, other, tag=9)
        work = collectives.all_reduce(x, async_op=True)
    else:
        work = collectives.all_reduce(x, async_op=True)
        with pytest.raises(CollectiveTimeoutError):
            work.wait(0.3)
        collectives.send(np.zeros(1, np.int8), 1, tag=9)
    assert np.all(work.wait() == collectives.world_size())


def test_in_place_and_part_of_the_input() -> None:
    rank, n = collectives.rank(), collectives.world_size()
    for size in (10, 30_000):
        rows = np.full((n, size), rank + 1.0)
        out: Array = rows[rank]
        assert collectives.reduce_scatter(rows, out=out[None]).base is not None
        assert np.all(out == n * (n + 1) / 2)
        rows = np.full((n, size), -1.0)
        rows[rank] = rank
        collectives.all_gather(rows[rank : rank + 1], out=rows)
        assert rows[:, 0].tolist() == list(range(n))
