"""Time-outs as PyTorch has them."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from shardwise import collectives
from shardwise.backend.errors import CollectiveTimeoutError

SECONDS = timedelta(seconds=7)


def test_time_outs_may_be_timedeltas() -> None:
    def work(rank: int) -> list[float]:
        world = collectives.init(timeout=SECONDS)
        assert collectives.init(timeout=7) is world
        groups = (
            collectives.get_group(),
            collectives.new_group(timeout=SECONDS),
            collectives.new_subgroups(1, timeout=SECONDS)[0],
            collectives.get_group().split(0, timeout=SECONDS),
        )
        collectives.barrier(timeout=SECONDS)
        collectives.monitored_barrier(timeout=SECONDS)
        collectives.all_reduce(np.ones(3), async_op=True).wait(SECONDS)
        collectives.barrier(groups[1])
        return [group.timeout for group in groups if group is not None]

    assert collectives.run_threads(work, 2) == [[7.0] * 4] * 2


def test_a_timedelta_ends_a_wait() -> None:
    def work(rank: int) -> None:
        if rank == 0:
            with pytest.raises(CollectiveTimeoutError, match=r"within 0.05 s"):
                collectives.irecv((1,), src=1).wait(timedelta(milliseconds=50))
        collectives.barrier()

    collectives.run_threads(work, 2)


def test_reductions_have_the_names_of_pytorch() -> None:
    def work(rank: int) -> None:
        op = collectives.ReduceOp
        assert collectives.all_reduce(np.array(rank + 1), op.SUM) == 3
        assert collectives.all_reduce(np.array(rank + 1.0), op=op.AVG) == 1.5
        assert collectives.reduce_scatter(np.full(2, rank + 2), op.PRODUCT) == 6
        assert collectives.all_reduce(np.array(rank), op.MIN) == 0
        assert collectives.all_reduce(np.array(rank), op.MAX) == 1
        assert collectives.all_reduce(np.array(rank + 1), op.BAND) == 0
        assert collectives.all_reduce(np.array(rank + 1), op.BOR) == 3
        assert collectives.all_reduce(np.array(3 * rank), op.BXOR) == 3

    collectives.run_threads(work, 2)
