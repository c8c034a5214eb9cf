"""Groups that span hosts, on ranks of one machine that take themselves for two hosts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ranks.definition import check_movements, check_reductions, inputs, reduced, same, takes
from shardwise import collectives
from shardwise.collectives.context import rank_thread
from shardwise.collectives.hierarchy import HierarchicalChannel, HostPlan
from shardwise.collectives.mpi.channel import MPIChannel
from shardwise.collectives.mpi.transport import MPITransport
from shardwise.collectives.reduction import REDUCTIONS


def test_the_plan() -> None:
    plan = HostPlan.of(["b", "a", "b", "a"])
    assert plan.members == ((0, 2), (1, 3))
    assert plan.is_worth_it
    assert plan.inside(3) == (1, 3)
    assert plan.across(3) == (2, 3)
    assert not HostPlan.of(["a", "a"]).is_worth_it
    assert not HostPlan.of(["a", "b"]).is_worth_it
    assert not HostPlan.of(["a", "a", "b"]).is_worth_it


@pytest.fixture(params=["aabb", "abab", "abba"])
def two_hosts(request: pytest.FixtureRequest) -> Iterator[None]:
    """A world of four ranks on two hosts."""
    from mpi4py import MPI

    collectives.get_world()
    with rank_thread(lambda: MPITransport(MPI, hosts=request.param)):
        yield
        collectives.shutdown()


@pytest.mark.mpi(min_size=4)
def test_every_collective(two_hosts: None) -> None:
    for code in "?blefdFD":
        check_all(np.dtype(code))


def check_all(dtype: np.dtype[np.generic]) -> None:
    rank, n = collectives.rank(), collectives.world_size()
    for shape in ((2, 3), (0,), (40_003,)):
        for op in REDUCTIONS:
            if takes(op, dtype) and (shape != (40_003,) or op in ("sum", "avg", "max", "bxor")):
                check_reductions(dtype, op, shape)
        check_movements(dtype, shape)
    assert isinstance(collectives.get_group().channel, HierarchicalChannel)
    xs = inputs(3, (20_000,), dtype)
    if rank < 3:  # a group that cannot be layered
        group = collectives.get_group([2, 0, 1])
        place = group.ranks.index(rank)
        same(collectives.all_reduce(xs[place], group=group), reduced("sum", xs))
        assert isinstance(group.channel, MPIChannel)
    collectives.barrier()
    assert n == 4


@pytest.mark.mpi(min_size=4)
def test_equal_bits_on_all_ranks(two_hosts: None) -> None:
    x = np.random.default_rng(collectives.rank()).standard_normal(100_001).astype(np.float32)
    total = collectives.all_reduce(x)
    assert len(set(collectives.all_gather_object(total.tobytes()))) == 1
    again = collectives.all_reduce(x)
    assert total.tobytes() == again.tobytes()


@pytest.mark.mpi(min_size=4)
def test_asynchronous_and_in_place(two_hosts: None) -> None:
    rank, n = collectives.rank(), collectives.world_size()
    xs = [np.full(30_000, float(rank + turn)) for turn in range(6)]
    works = [collectives.all_reduce(x, out=x, async_op=True) for x in xs]
    for turn, (work, x) in enumerate(zip(works, xs, strict=True)):
        assert work.wait() is x
        assert np.all(x == sum(range(n)) + n * turn)
