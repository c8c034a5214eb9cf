"""Large parts that each rank lays into the results of the others, against NumPy."""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from ranks.definition import BFLOAT16
from shardwise import collectives as c
from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveMismatchError
from shardwise.collectives.form.operand import itself
from shardwise.collectives.issue.alike import issue_all_gather
from shardwise.collectives.shm import arena, lay_cpu
from shardwise.collectives.shm.channel import ShmChannel
from shardwise.collectives.shm.placement import Placement

DTYPES = [np.dtype(code) for code in "?fF"] + [BFLOAT16]


def given(n: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> list[Array]:
    return [(np.random.default_rng(seed).random(shape) * 100).astype(dtype) for seed in range(n)]


def cut(x: Array, begin: int, end: int, dim: int) -> Array:
    return x[(*(slice(None),) * dim, slice(begin, end))]


@pytest.fixture
def laid(monkeypatch: pytest.MonkeyPatch) -> list[Placement]:
    """Note what goes this way."""
    found: list[Placement] = []
    place = ShmChannel.place

    def noted(self: ShmChannel, placing: object) -> object:
        pending = place(self, placing)  # type: ignore[arg-type]
        if isinstance(pending, Placement):
            found.append(pending)
        return pending

    monkeypatch.setattr(ShmChannel, "place", noted)
    return found


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(192, 3072), (96, 12, 768), (48, 3, 12, 768)], ids=str)
def test_every_dim(shape: tuple[int, ...], dtype: np.dtype[np.generic], laid: list[Placement]) -> None:
    n, rank = c.world_size(), c.rank()
    xs = given(n, shape, dtype)
    x = xs[rank]
    for dim in range(1, len(shape)):
        whole = np.concatenate(xs, dim)
        assert np.array_equal(c.all_gather(x, dim=dim), whole)
        assert np.array_equal(c.all_gather(x, dim=dim, async_op=True).wait(), whole)
        uneven = [shape[dim] - i for i in range(n)]
        parts = [cut(each, 0, size, dim) for each, size in zip(xs, uneven, strict=True)]
        assert np.array_equal(c.all_gather(parts[rank], dim=dim, sizes=uneven), np.concatenate(parts, dim))
        if shape[dim] % n == 0:
            want = functools.reduce(np.add, [np.split(each, n, dim)[rank] for each in xs])
            got = c.reduce_scatter(x, dim=dim)
            assert np.array_equal(got, want) or (n > 2 and dtype.kind not in "?h")
    for dim, other in itertools.permutations(range(len(shape)), 2):
        if shape[dim] % n == 0:
            got = c.all_to_all(x, split_dim=dim, concat_dim=other)
            assert np.array_equal(got, np.concatenate([np.split(each, n, dim)[rank] for each in xs], other))
    assert len(laid) >= 3 * (len(shape) - 1)


@pytest.mark.mpi(min_size=2)
def test_uneven_swap(laid: list[Placement]) -> None:
    n, rank = c.world_size(), c.rank()
    goes = [100 + 10 * i for i in range(n)]
    comes = [300 - 50 * i for i in range(n)]
    begins = np.cumsum([0, *goes])
    xs = [np.random.default_rng(i).random((sum(goes), comes[i])) for i in range(n)]
    got = c.all_to_all(xs[rank], split_dim=0, concat_dim=1, split_sizes=goes, concat_sizes=comes)
    want = np.concatenate([each[begins[rank] : begins[rank + 1]] for each in xs], 1)
    assert np.array_equal(got, want)
    assert laid


@pytest.mark.mpi(min_size=2)
def test_an_array_to_fill_on_one_rank_only(laid: list[Placement]) -> None:
    n, rank = c.world_size(), c.rank()
    xs = given(n, (256, 1024), np.dtype(np.float32))
    out = np.zeros((256, n * 1024), np.float32) if rank == 0 else None
    got = c.all_gather(xs[rank], dim=1, out=out)
    assert np.array_equal(got, np.concatenate(xs, 1))
    assert out is None or got is out
    assert laid


@pytest.mark.mpi(min_size=2)
def test_one_rank_has_no_memory_left(monkeypatch: pytest.MonkeyPatch, laid: list[Placement]) -> None:
    n, rank = c.world_size(), c.rank()
    xs = given(n, (256, 1024), np.dtype(np.float32))
    monkeypatch.setattr(arena, "_own", arena.Arenas())
    if rank == n - 1:
        monkeypatch.setattr(arena, "_MOST", 0)
    assert np.array_equal(c.all_gather(xs[rank], dim=1), np.concatenate(xs, 1))
    assert laid


@pytest.mark.mpi(min_size=2)
def test_results_are_apart_and_their_memory_is_used_again() -> None:
    n, rank = c.world_size(), c.rank()
    x = np.full((256, 1024), rank, np.float32)
    kept = [c.all_gather(x + 10 * i, dim=1) for i in range(3)]
    for i, each in enumerate(kept):
        assert np.array_equal(each, np.repeat(np.arange(n) + 10 * i, 1024)[None].repeat(256, 0))
    places = set()
    for _ in range(50):
        result = c.all_gather(x, dim=1)
        result += 1  # it belongs to the caller
        places.add(result.ctypes.data)
        del result
        gc.collect()
    assert len(places) <= 2
    for i, each in enumerate(kept):
        assert each[0, 0] == 10 * i
    c.barrier()


@pytest.mark.mpi(min_size=2)
def test_interrupted_while_it_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    n, rank, group = c.world_size(), c.rank(), c.new_group()
    c.barrier(group)
    x = np.full((256, 1024), rank, np.float32)
    copies: Callable[..., None] = lay_cpu.copy_runs
    if rank == 0:

        def interrupted(*args: object) -> None:
            monkeypatch.setattr(lay_cpu, "copy_runs", copies)
            raise KeyboardInterrupt

        monkeypatch.setattr(lay_cpu, "copy_runs", interrupted)
        with pytest.raises(KeyboardInterrupt):
            issue_all_gather(x, group, 1, None, None, itself, False).wait()
    else:
        issue_all_gather(x, group, 1, None, None, itself, False).wait(20)
    # The interrupted one stays ahead of what follows, and is carried out.
    got = c.all_gather(x + 1, group, dim=1)
    assert np.array_equal(got[0], np.repeat(np.arange(n) + 1, 1024))


@pytest.mark.mpi(min_size=2)
def test_ranks_that_disagree() -> None:
    x = np.zeros((256 + c.rank(), 1024), np.float32)
    with pytest.raises(CollectiveMismatchError, match="disagree"):
        c.all_gather(x, c.new_group(), dim=1)


@pytest.mark.mpi(min_size=2)
def test_all_ranks_raise_where_one_gives_other_sizes() -> None:
    n, rank = c.world_size(), c.rank()
    comes = [299, 301, *[300] * (n - 2)]
    goes = [99, 101, *[100] * (n - 2)] if rank == 0 else [101, 99, *[100] * (n - 2)]
    x = np.zeros((100 * n, comes[rank]))
    with pytest.raises(CollectiveMismatchError, match="all must give the same sizes"):
        c.all_to_all(x, c.new_group(), split_dim=0, concat_dim=1, split_sizes=goes, concat_sizes=comes)


@pytest.mark.parametrize("seed", range(200))
def test_runs(seed: int) -> None:
    """Views of any shape and strides: rows of runs where they are, and copied right in any case."""
    draw = np.random.default_rng(seed)
    ndim = int(draw.integers(1, 4))
    shape = tuple(int(n) for n in draw.integers(1, 5, ndim - 1)) + (int(draw.integers(60, 90)),)

    def view() -> Array:
        big = draw.random(tuple(n + int(draw.integers(0, 2)) * 3 for n in shape))
        return big[tuple(slice(0, n) for n in shape)]

    source, target = view(), view()
    lay_cpu.copy_runs(target, source, bool(seed % 2))
    assert np.array_equal(source, target)
    runs = lay_cpu.runs_of(source.shape, source.strides, target.strides, 8)
    if runs is not None:
        assert runs[0] * runs[3] == source.nbytes


def test_blocks() -> None:
    """What was given back is given again, and never twice at a time."""
    arenas = arena.Arenas()
    draw = np.random.default_rng(0)
    held: list[tuple[Array, int]] = []
    for step in range(2000):
        if held and draw.random() < 0.5:
            array, value = held.pop(int(draw.integers(len(held))))
            assert (array == value).all()
            del array
        else:
            block = arenas.block(int(draw.integers(1, 1 << 19)))
            assert block is not None
            array = block.bytes()
            array[:] = step % 251
            held.append((array, step % 251))
            del array, block
        if len(held) > 40:
            held.pop(0)
    for array, value in held:
        assert (array == value).all()
    assert len(arenas._mappings) == 1
