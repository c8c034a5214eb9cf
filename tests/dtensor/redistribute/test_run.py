"""Redistributions against what each rank must hold, on threads and under MPI."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from layout_oracle import coordinate, local_array, random_layout, random_mesh
from shardwise.backend.array import Array
from shardwise.collectives import run_threads
from shardwise.dtensor import Layout
from shardwise.dtensor.redistribute import plan, run, run_many, start
from shardwise.mesh import DeviceMesh

WHOLE = np.arange(35, dtype=np.float64).reshape(5, 7)
SOURCES = [*itertools.product(("R", "S(0)", "S(1)", "P"), repeat=2)]
TARGETS = [*itertools.product(("R", "S(0)", "S(1)"), repeat=2)]

Go = Callable[[Layout, Layout, Array], Array]


def at_once(source: Layout, target: Layout, local: Array) -> Array:
    return run(plan(source, target), local)


def later(source: Layout, target: Layout, local: Array) -> Array:
    work = start(plan(source, target), local)
    result = work.wait()
    assert work.wait() is result
    assert work.is_completed()
    return result


def check(
    whole: Array, source: Layout, target: Layout, local: Array | None = None, go: Go = at_once
) -> Array:
    """Redistribute, and compare with the oracle unless the target is partial."""
    rank = sw.rank()
    local = local_array(whole, source, rank) if local is None else local
    before = local.copy()
    result = go(source, target, local)
    at = coordinate(target.mesh, rank)
    what = f"{source!r} -> {target!r}, rank {rank}\n{plan(source, target)}"
    assert result.shape == target.local_shape(at), what
    assert result.dtype == whole.dtype, what
    np.testing.assert_array_equal(local, before, what)
    if not target.partial:
        np.testing.assert_array_equal(result, local_array(whole, target, rank), what)
    return result


@pytest.mark.parametrize("go", [at_once, later])
def test_every_pair_of_placements_on_two_axes(go: Go) -> None:
    def work(rank: int) -> int:
        mesh = DeviceMesh("cpu", np.arange(6).reshape(2, 3))
        for one, other in itertools.product(SOURCES, TARGETS):
            source, target = (Layout(mesh, each, (5, 7), "f8") for each in (one, other))
            check(WHOLE, source, target, go=go)
        return len(SOURCES) * len(TARGETS)

    assert run_threads(work, 6) == [144] * 6


def walk(rank: int, seed: int, shape: tuple[int, ...], meshes: Sequence[tuple[int, ...]], world: int) -> None:
    """Go from layout to layout; each must hold the same tensor."""
    rng = random.Random(seed)
    ops, dtype = rng.choice(
        [(("sum", "avg"), "f8"), (("max",), "f4"), (("min",), "i4"), (("prod",), "f8"), (("sum",), "i8")]
        + [((op,), "u2") for op in ("bxor", "bor", "band")]
    )
    whole = np.random.default_rng(seed).integers(1, 50, shape).astype(dtype)
    made = [random_mesh(rng, world, each) for each in meshes]
    layouts = [random_layout(rng.choice(made), shape, dtype, rng, ops) for _ in range(5)]
    layouts.append(random_layout(rng.choice(made), shape, dtype, rng))
    local = local_array(whole, layouts[0], rank)
    for source, target in itertools.pairwise(layouts):
        local = check(whole, source, target, local)


def many(rank: int, seed: int, meshes: Sequence[tuple[int, ...]], world: int) -> None:
    """Change many arrays at once."""
    rng = random.Random(seed)
    made = [random_mesh(rng, world, each) for each in meshes]
    wholes, layouts = [], []
    for shape in [(5, 7), (4,), (), (3, 0), (8, 2, 3), (6, 6), (5, 7)]:
        dtype = rng.choice(["f8", "f4"])
        wholes.append(np.random.default_rng(len(wholes)).integers(1, 50, shape).astype(dtype))
        mesh = rng.choice(made)
        layouts.append(
            (
                random_layout(mesh, shape, dtype, rng, ("sum", "avg")),
                random_layout(mesh if rng.random() < 0.8 else rng.choice(made), shape, dtype, rng),
            )
        )
    locals_ = [local_array(whole, a, rank) for whole, (a, _) in zip(wholes, layouts, strict=True)]
    results = run_many([(plan(a, b), x) for (a, b), x in zip(layouts, locals_, strict=True)])
    for whole, (_, target), result in zip(wholes, layouts, results, strict=True):
        want = local_array(whole, target, rank)
        assert result.shape == want.shape
        np.testing.assert_array_equal(result, want)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32), meshes=st.lists(st.sampled_from([(3,), (2, 2), (4,)]), min_size=1, max_size=2)
)
def test_many_at_once(seed: int, meshes: list[tuple[int, ...]]) -> None:
    run_threads(lambda rank: many(rank, seed, meshes, 4), 4)


def test_gradients_of_a_layer_are_reduced_at_once() -> None:
    def work(rank: int) -> tuple[list[tuple[str, int]], int]:
        mesh = DeviceMesh("cpu", [0, 1])
        terms = [Layout(mesh, ["P"], (n, 4), "f4") for n in (4, 6, 8)]
        plans = [plan(a, a.with_placements(["R"])) for a in terms[:2]]
        plans += [plan(a, a.with_placements(["S(1)"])) for a in terms]
        items = [(each, np.ones(each.source.shape, "f4")) for each in plans]
        with sw.explain() as moved:
            results = run_many(items)
        assert all((result == 2).all() for result in results)
        return [(record.op, record.bytes) for record in moved], sum(each.bytes for each in plans)

    records = [("all_reduce", 160), ("reduce_scatter", 144)]
    assert run_threads(work, 2) == [(records, 304)] * 2


SHAPES = st.lists(st.integers(0, 11), max_size=3).map(tuple)
SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("mesh", [(1,), (3,), (4,), (2, 2), (2, 3), (1, 3), (2, 2, 2)], ids=str)
@settings(max_examples=40)
@given(seed=SEEDS, shape=SHAPES)
def test_walks_on_one_mesh(mesh: tuple[int, ...], seed: int, shape: tuple[int, ...]) -> None:
    world = int(np.prod(mesh))
    run_threads(lambda rank: walk(rank, seed, shape, [mesh], world), world)


@settings(max_examples=80)
@given(
    seed=SEEDS,
    shape=SHAPES,
    meshes=st.lists(st.sampled_from([(1,), (3,), (2, 2), (4,), (1, 2)]), min_size=2, max_size=3),
)
def test_walks_between_meshes(seed: int, shape: tuple[int, ...], meshes: list[tuple[int, ...]]) -> None:
    run_threads(lambda rank: walk(rank, seed, shape, meshes, 5), 5)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("seed", range(12))
def test_walks_under_mpi(seed: int) -> None:
    world = sw.world_size()
    meshes = {2: [(2,), (1, 2), (1,)], 3: [(3,), (2,), (1, 3)], 4: [(2, 2), (4,), (3,)]}[world]
    walk(sw.rank(), seed, [(5, 7), (8, 4), (3,), (2, 0, 3)][seed % 4], meshes, world)


LARGE = [("R", 1), ("S(0)", 1), ("S(1)", 0), ("R", 2)]


def large(rank: int, world: int) -> None:
    """Change arrays so large that they go other ways than small ones."""
    whole = np.arange(1021 * 1030, dtype=np.float64).reshape(1021, 2, 515)
    mesh = DeviceMesh("cpu", list(range(world)))
    for target, dim in LARGE:
        check(whole, *(Layout(mesh, [each], whole.shape, "f8") for each in (f"S({dim})", target)))


@pytest.mark.parametrize("world", [2, 3])
def test_large_arrays(world: int) -> None:
    run_threads(lambda rank: large(rank, world), world)


@pytest.mark.mpi(min_size=2)
def test_large_arrays_under_mpi() -> None:
    large(sw.rank(), sw.world_size())
