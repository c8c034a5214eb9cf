"""DistributedSampler deals as PyTorch's does; local_rows cuts a batch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.collectives import get_group, run_threads
from shardwise.errors import ArgumentError, ShapeError
from shardwise.parallel import DistributedSampler, local_rows


def documented(n: int, replicas: int, rank: int, drop_last: bool) -> list[int]:
    """Follow PyTorch's description: cut or pad to a multiple, then every `replicas`-th from `rank`."""
    order = list(range(n))
    if drop_last:
        total = math.ceil((n - replicas) / replicas) * replicas if n % replicas else n
        order = order[:total]
    else:
        total = math.ceil(n / replicas) * replicas
        padding = total - n
        order += (order * math.ceil(padding / n))[:padding]
    return order[rank:total:replicas]


@given(st.integers(1, 40), st.integers(1, 9), st.booleans(), st.data())
def test_deals_as_documented(n: int, replicas: int, drop_last: bool, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, replicas - 1))
    sampler = DistributedSampler(range(n), replicas, rank, shuffle=False, drop_last=drop_last)
    assert list(sampler) == documented(n, replicas, rank, drop_last)
    assert len(list(sampler)) == len(sampler)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 5), st.booleans())
def test_shuffling_deals_the_same_order_to_all(n: int, replicas: int, epoch: int, drop_last: bool) -> None:
    parts = []
    for rank in range(replicas):
        sampler = DistributedSampler(range(n), replicas, rank, seed=7, drop_last=drop_last)
        sampler.set_epoch(epoch)
        parts.append(list(sampler))
    dealt = [part[i] for i in range(len(parts[0])) for part in parts]  # undo the dealing
    assert len({len(part) for part in parts}) == 1
    if drop_last:
        assert len(set(dealt)) == len(dealt) == n // replicas * replicas
    else:
        assert sorted(dealt[:n]) == list(range(n))
        assert dealt[n:] == (dealt[:n] * replicas)[: len(dealt) - n]


def test_epochs_and_seeds_shuffle_differently() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        sampler = DistributedSampler(range(50), 1, 0, seed=seed)
        sampler.set_epoch(epoch)
        assert list(sampler) == list(sampler)
        return list(sampler)

    orders = [order(seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    assert len({tuple(o) for o in orders}) == 6
    assert all(sorted(o) == list(range(50)) for o in orders)
    assert list(range(50)) not in orders


def test_the_world_is_the_default() -> None:
    parts = run_threads(lambda _: list(DistributedSampler(range(7), shuffle=False)), 3)
    assert parts == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError) as error:
        DistributedSampler(range(3), 2, 2)
    assert str(error.value) == "DistributedSampler: rank must be in [0, num_replicas), got 2 of 2"
    with pytest.raises(ArgumentError) as error:
        DistributedSampler(range(3), 0, 0)
    assert str(error.value) == "DistributedSampler: rank must be in [0, num_replicas), got 0 of 0"
    with pytest.raises(ArgumentError) as error:
        DistributedSampler([], 2, 1)
    assert str(error.value) == "DistributedSampler: the data set is empty"


def test_local_rows_cut_a_batch() -> None:
    assert run_threads(lambda _: local_rows(12), 3) == [slice(0, 4), slice(4, 8), slice(8, 12)]
    assert local_rows(5) == slice(0, 5)

    def in_a_group(rank: int) -> slice | None:
        return local_rows(4, get_group((2, 1))) if rank else None  # the group's order counts

    assert run_threads(in_a_group, 3) == [None, slice(2, 4), slice(0, 2)]


@pytest.mark.parametrize(
    ("total", "use"), [(13, "12 or 15"), (2, "3"), (0, "3"), (-1, "3"), (-4, "3"), (4, "3 or 6")]
)
def test_rows_that_do_not_divide(total: int, use: str) -> None:
    def ask(_: int) -> str:
        with pytest.raises(ShapeError) as error:
            local_rows(total)
        return str(error.value)

    expected = f"a global batch of {total} rows does not divide over 3 ranks; use {use}"
    assert run_threads(ask, 3) == [expected] * 3


def test_rows_of_a_group_without_this_rank() -> None:
    def ask(rank: int) -> str:
        if rank:
            return ""
        with pytest.raises(ShapeError) as error:
            local_rows(4, get_group((1, 2)))
        return str(error.value)

    assert run_threads(ask, 3)[0] == "rank 0 is not in the group [1, 2], so it has no rows of the batch"
