"""Plans as data: their steps, bytes and costs; the same everywhere, cheapest, quick, and gone when unused."""

from __future__ import annotations

import gc
import importlib
import itertools
import re
import time
import weakref
from collections.abc import Sequence

import numpy as np
import pytest

import shardwise as sw
from shardwise.backend.errors import CollectiveError, LayoutError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives import implicit, run_threads
from shardwise.dtensor import Layout, Shard, Spec
from shardwise.dtensor.redistribute import LinkCosts, Plan, plan, run
from shardwise.dtensor.redistribute.cost import Link
from shardwise.mesh import DeviceMesh

FAST, SLOW = LinkCosts(), LinkCosts(1e-6, 1e-7, 1e6, 1e-6, 1e-7, 1e6)


def on_mesh(
    sizes: Sequence[int], source: object, target: object, shape: tuple[int, ...], cost: LinkCosts = FAST
) -> Plan:
    """Plan on a mesh with axes a, b, c."""
    names = tuple("abc"[: len(sizes)])

    def work(rank: int) -> Plan:
        mesh = DeviceMesh("cpu", np.arange(np.prod(sizes)).reshape(sizes), names)
        one, other = (Layout(mesh, each, shape, "f4") for each in (source, target))  # type: ignore[arg-type]
        return plan(one, other, cost=cost)

    plans = run_threads(work, int(np.prod(sizes)))
    assert len({str(each) for each in plans}) == 1
    return plans[0]


def steps(made: Plan) -> list[str]:
    """Give the steps without bytes and times."""
    return [re.sub(r", (free|\d+ bytes.*)$", "", str(step)).replace(" over ", " ") for step in made.steps]


# What the plain order, gathering from the inside and scattering from the outside, needs three steps for.
EXAMPLES = [
    ("S(0) S(0)", "R S(0)", ["exchange axb: S(0) S(0) -> R S(0)"]),
    ("S(0) S(1)", "S(1) S(0)", ["exchange axb: S(0) S(1) -> S(1) S(0)"]),
    ("R S(0)", "S(0) R", ["exchange axb: R S(0) -> S(0) R"]),
    ("P P", "S(0) S(0)", ["reduce_scatter axb: P P -> S(0) S(0)"]),
    ("P P", "R R", ["all_reduce axb: P P -> R R"]),
    ("S(0) S(0)", "R R", ["all_gather axb: S(0) S(0) -> R R"]),
    ("S(0) S(1)", "R R", ["all_gather axb: S(0) S(1) -> R R"]),
    ("S(0) S(0)", "S(1) S(1)", ["all_to_all axb: S(0) S(0) -> S(1) S(1)"]),
    (
        "R P",
        "R R",
        ["slice a: R P -> S(0) P", "all_reduce b: S(0) P -> S(0) R", "all_gather a: S(0) R -> R R"],
    ),
    ("R P", "S(0) S(0)", ["slice a: R P -> S(0) P", "reduce_scatter b: S(0) P -> S(0) S(0)"]),
    (
        "P S(0)",
        "S(0) R",
        ["reduce_scatter a: P S(0) -> S(0)#1 S(0)#0", "exchange axb: S(0)#1 S(0)#0 -> S(0) R"],
    ),
]


@pytest.mark.parametrize(("source", "target", "wanted"), EXAMPLES)
def test_examples(source: str, target: str, wanted: list[str]) -> None:
    made = on_mesh((2, 4), source.split(), target.split(), (1024, 1024), SLOW)
    assert steps(made) == wanted


def test_other_orders_of_the_same_axes() -> None:
    inside = Spec(("b", "a"))  # as data parallel inside of tensor parallel: cut by b, then by a
    assert steps(on_mesh((2, 4), inside, ["R", "S(0)"], (64,))) == ["all_gather a: S(0)#1 S(0)#0 -> R S(0)"]
    assert steps(on_mesh((2, 4), ["R", "S(0)"], inside, (64,))) == ["slice a: R S(0) -> S(0)#1 S(0)#0"]
    assert steps(on_mesh((2, 4), inside, ["S(0)", "S(0)"], (64,), SLOW)) == [
        "exchange axb: S(0)#1 S(0)#0 -> S(0) S(0)"
    ]
    assert steps(on_mesh((2, 4), ["P", "S(0)"], inside, (64,))) == [
        "reduce_scatter a: P S(0) -> S(0)#1 S(0)#0"
    ]


def test_sizes_of_ones_own() -> None:
    ragged = Shard(0, (1, 0, 5, 2))
    assert steps(on_mesh((4,), [ragged], ["R"], (8,))) == ["all_gather a: S(0, [1, 0, 5, 2]) -> R"]
    assert steps(on_mesh((4,), [ragged], ["S(0)"], (8,), SLOW)) == ["exchange a: S(0, [1, 0, 5, 2]) -> S(0)"]
    assert steps(on_mesh((4,), ["P"], [ragged], (8,))) == ["reduce_scatter a: P -> S(0, [1, 0, 5, 2])"]
    assert on_mesh((4,), [Shard(0, (2, 2, 2, 2))], ["S(0)"], (8,)).steps == ()


def test_a_plan_says_what_it_does() -> None:
    made = on_mesh((2, 4), ["P", "S(0)"], ["R", "R"], (16, 16))
    assert str(made) == (
        "all_reduce over a: P S(0) -> R S(0), 256 bytes, 7.9 us\n"
        "all_gather over b: R S(0) -> R R, 768 bytes, 8.6 us"
    )
    assert repr(made) == "Plan(P S(0) -> R R: 2 steps, 1024 bytes)"
    assert (made.bytes, made.is_free, made.aliases, len(made)) == (1024, False, False, 2)
    nothing = on_mesh((2, 4), ["R", "S(0)"], ["R", "S(0)"], (16, 16))
    assert (str(nothing), nothing.steps) == ("nothing to do: R S(0) is R S(0)", ())
    assert (nothing.is_free, nothing.aliases, nothing.cost) == (True, True, 0.0)
    sliced = on_mesh((2, 4), ["R", "R"], ["R", "S(0)"], (16, 16))
    assert (sliced.is_free, sliced.aliases, str(sliced)) == (True, True, "slice over b: R R -> R S(0), free")


def test_axes_of_one_rank_change_nothing() -> None:
    assert on_mesh((1, 2), ["S(0)", "S(0)"], ["P", "S(0)"], (8, 4)).steps == ()
    assert on_mesh((1, 2), ["P(max)", "R"], ["S(1)", "R"], (8, 4)).steps == ()
    assert steps(on_mesh((1, 2), ["S(1)", "S(0)"], ["R", "R"], (8, 4))) == ["all_gather b: S(1) S(0) -> R R"]


KINDS = ("R", "S(0)", "S(1)", "P")


@pytest.mark.parametrize("cost", [FAST, SLOW], ids=["latency", "bandwidth"])
def test_no_detour_is_cheaper(cost: LinkCosts) -> None:
    def work(rank: int) -> None:
        mesh = DeviceMesh("cpu", np.arange(6).reshape(2, 3))
        every = [Layout(mesh, each, (12, 24), "f4") for each in itertools.product(KINDS, KINDS)]
        costs = {(a, b): plan(a, b, cost=cost).cost for a in every for b in every if not b.partial}
        whole = [each for each in every if not each.partial]
        for a, b, c in itertools.product(every, whole, whole):
            assert costs[a, c] <= costs[a, b] + costs[b, c] + 1e-12, f"{a} -> {b} -> {c}"

    run_threads(work, 6)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_costs_of_collectives_agree(n: int) -> None:
    link = Link(1e-5, 1e-6, 1e9)
    for nbytes in (0, 1 << 10, 1 << 24):
        gathered = link.reduce_scatter(nbytes, n) + link.all_gather(nbytes // n, n)
        assert link.all_reduce(nbytes, n) < gathered + 1e-6
        assert link.all_to_all(nbytes, n) <= link.all_gather(nbytes, n)
        inside, outside = link.all_gather(nbytes, n), link.all_gather(nbytes * n, 2)
        assert link.all_gather(nbytes, 2 * n) <= inside + outside + n * link.hop


@pytest.mark.parametrize(
    ("source", "target"), [(("P", "S(1)"), ("S(0)", "R")), (("S(0)", "P"), ("S(0)", "R"))]
)
def test_bytes_are_those_of_the_ledger(source: tuple[str, str], target: tuple[str, str]) -> None:
    def work(rank: int) -> tuple[int, int]:
        mesh = DeviceMesh("cpu", np.arange(4).reshape(2, 2))
        a, b = (Layout(mesh, each, (8, 8), "f4") for each in (source, target))
        made = plan(a, b)
        with sw.explain() as moved:
            run(made, np.ones((8, 4) if source[0] == "P" else (4, 8), "f4"))
        return made.bytes, moved.total_bytes()

    for predicted, recorded in run_threads(work, 4):
        assert predicted == recorded


def test_the_ledger_says_what_becomes_what() -> None:
    def work(rank: int) -> str:
        mesh = DeviceMesh("cpu", [0, 1])
        source = Layout(mesh, ["S(0)"], (4, 3), "f4")
        made = plan(source, source.replicated(), cost=FAST)
        with sw.explain() as moved, implicit():
            run(made, np.ones((2, 3), "f4"))
        (record,) = moved
        assert record.conversion == ("S(0)", "R", made.cost)
        with sw.no_implicit():
            run(made, np.ones((2, 3), "f4"))
            with implicit(), pytest.raises(CollectiveError) as error:
                run(made, np.ones((2, 3), "f4"))
        assert f"forbids all_gather from S(0) to R on world, float32[2, 3], 24 bytes, at {__file__}" in str(
            error.value
        )
        return moved.table()

    table = run_threads(work, 2)[0].splitlines()
    heading = ["times", "op", "array", "bytes", "group", "ms", "predicted", "from", "to", "asked", "line"]
    assert table[0].split() == heading
    assert " 0.007      S(0)  R   implicit " in table[1]


def test_arrays_without_data_move_nothing() -> None:
    def work(rank: int) -> tuple[tuple[int, ...], list[str]]:
        mesh = DeviceMesh("cpu", [[0, 1], [2, 3]])
        a, b = (Layout(mesh, each, (5, 7), "f4") for each in (["P", "S(0)"], ["S(0)", "R"]))
        at = mesh.get_coordinate()
        with sw.explain() as moved:
            local: object = ShapeArray(a.local_shape(at), "f4")
            result = run(plan(a, b), local)  # type: ignore[arg-type]
        assert result.shape == b.local_shape(at)
        return result.shape, [record.op for record in moved]

    shapes = [shape for shape, _ in run_threads(work, 4)]
    assert shapes == [(3, 7), (3, 7), (2, 7), (2, 7)]


REFUSED = [
    ("P(max)", "P", "Partial(max) on axis 'a' does not become Partial(sum)"),
    ("P", "P(min)", "Partial(sum) on axis 'a' does not become Partial(min)"),
]


@pytest.mark.parametrize(("source", "target", "reason"), REFUSED)
def test_no_reduction_becomes_another(source: str, target: str, reason: str) -> None:
    with pytest.raises(LayoutError) as error:
        on_mesh((2,), [source], [target], (4,))
    wanted = (
        f"cannot redistribute Layout(float32[4] on (a=2): {source}) to Layout(float32[4] on (a=2): {target})"
    )
    assert str(error.value) == f"{wanted}: {reason} without its value; redistribute to Replicate() first."


@pytest.mark.parametrize(("shape", "dtype"), [((5,), "f4"), ((4,), "f8")])
def test_shape_and_dtype_stay(shape: tuple[int, ...], dtype: str) -> None:
    mesh = DeviceMesh("cpu", [0])
    with pytest.raises(
        LayoutError, match=r"changes neither shape nor dtype; use reshape or astype for that\.$"
    ):
        plan(Layout(mesh, ["R"], (4,), "f4"), Layout(mesh, ["R"], shape, dtype))


def test_a_plan_is_made_once_and_goes_with_its_layouts() -> None:
    mesh = DeviceMesh("cpu", [0])
    source = Layout(mesh, ["S(0)"], (4, 123), "f4")
    target = Layout(mesh, ["R"], (4, 123), "f4")
    assert plan(source, target) is plan(source, target)
    assert plan(source, target, cost=SLOW) is not plan(source, target)
    gone = weakref.ref(source)
    del source, target
    gc.collect()
    assert gone() is None


def test_links_between_hosts_are_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(rank: int) -> list[str]:
        mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], ("a", "b"))
        whole = Layout(mesh, ["R", "R"], (1 << 20,), "f4")
        terms = plan(whole.with_placements(["P", "R"]), whole)
        return [
            str(plan(whole.with_placements(each), whole)) for each in (["S(0)", "R"], ["R", "S(0)"])
        ] + steps(terms)

    module = importlib.import_module("shardwise.dtensor.redistribute.plan")
    monkeypatch.setattr(module, "host_numbers", lambda: (0, 0, 1, 1))
    monkeypatch.setattr(module, "host_key", lambda: -1)
    assert run_threads(work, 4)[0] == [
        "all_gather over a: S(0) R -> R R, 2097152 bytes, 2119.9 us",
        "all_gather over b: R S(0) -> R R, 2097152 bytes, 426.6 us",
        # Over the slow links each rank of a host sends its half only.
        "slice b: P R -> P S(0)",
        "all_reduce a: P S(0) -> R S(0)",
        "all_gather b: R S(0) -> R R",
    ]


def test_planning_is_quick_on_a_large_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwise.mesh.device_mesh.world_size", lambda: 4096)
    mesh = DeviceMesh("cpu", np.arange(4096).reshape(8, 64, 8))
    took = []
    for one, other in [
        (("P", "P", "P"), ("S(2)", "S(0)", "R")),
        (("S(0)", "S(1)", "P"), ("S(1)", "R", "S(0)")),
    ]:
        source, target = (Layout(mesh, each, (4096, 1000, 2048), "f4") for each in (one, other))
        for _ in range(5):
            source.plans.clear()
            began = time.perf_counter()
            plan(source, target)
            took.append(time.perf_counter() - began)
    assert min(took[:5]) < 0.005
    assert min(took[5:]) < 0.005
