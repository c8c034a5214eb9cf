"""What memory is held, and by whom."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.tensor.memory import MemoryStats, memory_stats, track_memory

N = 10_000  # elements of 4 bytes


def change(run: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """What `run` returns, and by how much it changed what is held."""
    before = memory_stats()
    kept = run()
    after = memory_stats()
    names = ("leaves", "gradients", "saved", "others", "tensors")
    return kept, {name: getattr(after, name) - getattr(before, name) for name in names}


def held(**bytes_held: int) -> dict[str, int]:
    all_names: dict[str, int] = dict.fromkeys(("leaves", "gradients", "saved", "others"), 0)
    return {**all_names, **bytes_held, "tensors": sum(bytes_held.values())}


def test_each_kind_is_counted_apart() -> None:
    w, made = change(lambda: sw.ones(N, requires_grad=True))
    assert made == held(leaves=4 * N)
    y, made = change(lambda: w.exp())  # exp keeps its result
    assert made == held(saved=4 * N)
    loss, made = change(lambda: (y * 2.0).sum())
    assert made == held(others=4)
    y = None
    _, made = change(lambda: loss.backward())
    assert made == held(gradients=4 * N, saved=-4 * N)
    _, made = change(lambda: setattr(w, "grad", None))
    assert made == held(gradients=-4 * N)


def test_memory_that_is_shared_counts_once() -> None:
    x, made = change(lambda: sw.zeros(N))
    assert made == held(others=4 * N)
    _, made = change(lambda: (x[: N // 2], x.reshape(2, -1), x.detach(), x.expand(7, N)))
    assert made == held()
    part, made = change(lambda: sw.zeros(N)[:1])
    assert (part.shape, made) == ((1,), held(others=4 * N))
    _, made = change(lambda: sw.zeros(10**9, device="shape"))
    assert made == held()


@pytest.mark.parametrize("memory", [bytearray(4000), memoryview(bytearray(4000))])
def test_memory_of_something_else_is_counted(memory: bytearray | memoryview) -> None:
    before = memory_stats()
    x = sw.as_tensor(np.frombuffer(memory, np.float32))
    y = x[10:]
    assert memory_stats().others - before.others == 4000
    del x, y


def test_the_process_has_at_least_its_arrays() -> None:
    stats = memory_stats()
    assert isinstance(stats, MemoryStats)
    assert 10**6 < stats.resident <= stats.resident_peak


def test_a_block_is_watched_by_module() -> None:
    sw.manual_seed(0)
    model = sw.nn.Sequential(sw.nn.Linear(8, 100), sw.nn.GELU(), sw.nn.Linear(100, 4))
    x = sw.randn(1000, 8)
    model(x).sum().backward()  # what is loaded at the first call is none of the block's
    with track_memory() as memory:
        y = model(x)
        made = memory.by_module
        assert made["0"] == 1000 * 100 * 4
        assert made["2"] == 1000 * 4 * 4
        assert list(made.values()) == sorted(made.values(), reverse=True)
        assert memory.peak >= memory.current >= sum(made.values())
        forward_peak = memory.peak
        y.sum().backward()
        del y
        assert "0" not in memory.by_module
    assert memory.peak > forward_peak  # gradients count, though no module made them
    assert memory.by_module == {}
    peak = memory.peak
    _ = np.zeros(10**6)
    assert memory.peak == peak


def test_the_peak_can_be_started_again() -> None:
    with track_memory() as memory:
        x = sw.ones(100_000) * 2.0
        del x
        assert memory.peak >= 400_000
        memory.reset_peak()
        assert memory.peak < 100_000
        assert abs(memory.current) < 100_000


@pytest.mark.parametrize("already", [False, True])
def test_tracing_is_left_as_it_was(already: bool) -> None:
    if already:
        tracemalloc.start()
    try:
        with track_memory() as outer, track_memory() as inner:
            y = sw.ones(N, requires_grad=True) * 2.0
        assert tracemalloc.is_tracing() == already
        assert outer.by_module == inner.by_module == {"": 4 * N}
        del y
        assert inner.by_module == {}
    finally:
        if already:
            tracemalloc.stop()
