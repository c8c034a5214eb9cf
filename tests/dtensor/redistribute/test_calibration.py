"""Costs of links: measured, kept in a file, read by all ranks alike."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from shardwise.backend.errors import ArgumentError
from shardwise.collectives import run_threads
from shardwise.dtensor import Layout
from shardwise.dtensor.redistribute import (
    LinkCosts,
    link_costs,
    load_link_costs,
    measure_link_costs,
    plan,
    save_link_costs,
    set_link_costs,
    using_link_costs,
)
from shardwise.mesh import DeviceMesh

COSTS = LinkCosts(1e-5, 2e-6, 3e9, 4e-5, 5e-6, 6e8)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_all_ranks_measure_the_same(world: int) -> None:
    first, *others = run_threads(lambda rank: measure_link_costs(quick=True), world)
    assert others == [first] * (world - 1)
    assert (first == LinkCosts()) == (world == 1)
    assert first.far_latency == LinkCosts().far_latency  # there is one host


def test_what_was_saved_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert save_link_costs(COSTS) == tmp_path / "shardwise" / "links.json"
    assert [each.name for each in (tmp_path / "shardwise").iterdir()] == ["links.json"]

    def work(rank: int) -> tuple[LinkCosts, LinkCosts, float]:
        loaded = load_link_costs()
        mesh = DeviceMesh("cpu", [0, 1])
        source = Layout(mesh, ["S(0)"], (6,), "f4")
        cost = plan(source, source.replicated()).cost
        used = link_costs(mesh)
        set_link_costs(None)
        return loaded, used, cost

    seconds = 1e-5 + 2e-6 + 12 / 3e9
    assert run_threads(work, 2) == [(COSTS, COSTS, pytest.approx(seconds))] * 2


BROKEN = [
    (None, "cannot be read: No such file or directory"),
    ("{", "is not JSON"),
    ("[]", "has not the numbers bandwidth, far_bandwidth, far_hop, far_latency, hop, latency"),
    (json.dumps(asdict(COSTS) | {"hop": 0}), "has numbers that are not above 0"),
]


@pytest.mark.parametrize(("text", "reason"), BROKEN)
def test_a_file_that_will_not_do(text: str | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    if text is not None:
        path.write_text(text)

    def work(rank: int) -> str:
        with pytest.raises(ArgumentError) as error:
            load_link_costs(path)
        return str(error.value)

    told = f"load_link_costs: {path} {reason}; make one by shardwise doctor -n 2 --calibrate."
    assert run_threads(work, 2) == [told] * 2


def test_costs_count_in_their_block() -> None:
    with using_link_costs(COSTS):
        assert link_costs() == COSTS
    assert link_costs() == LinkCosts()


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan")])
def test_costs_are_numbers_above_0(value: float) -> None:
    with pytest.raises(ArgumentError, match=r"^LinkCosts: hop=.*; wanted a number above 0\.$"):
        LinkCosts(hop=value)
