"""Even stages: against brute force, within memory, by time; and what schedules make of their costs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from gpt import GPT
from shardwise import nn
from shardwise.backend.errors import ScheduleError
from shardwise.pipelining import (
    Costs,
    MemoryLimits,
    Schedule1F1B,
    best_schedule,
    partition,
    pipeline,
    simulate,
)
from split_models import fixed, modules, normal, row


@pytest.mark.parametrize("balance", ["flops", "params"])
def test_balance_against_brute_force(balance: Any) -> None:
    """Of all cuts between layers of different sizes, none has a smaller largest stage."""
    widths = [3, 17, 5, 40, 8, 31, 12, 6]
    pairs = list(itertools.pairwise(widths))
    model = nn.Sequential(*(nn.Linear(a, b) for a, b in pairs))
    costs = [4 * (a * b + b) if balance == "params" else 3 * (2 * a * b * 5 + b * 5) for a, b in pairs]
    for stages in (2, 3, 4):
        pipe = pipeline(model, (sw.zeros(5, 3),), num_stages=stages, balance=balance)
        sizes = [len(each) for each in modules(pipe)]

        def largest(cuts: tuple[int, ...], stages: int = stages) -> float:
            bounds = [0, *cuts, len(costs)]
            sent = [0, *(20 * 4 * 5 * pairs[c][0] if balance == "flops" else 0 for c in cuts), 0][1:]
            return max(sum(costs[bounds[i] : bounds[i + 1]]) + sent[i] for i in range(stages))

        mine = tuple(itertools.accumulate(sizes))[:-1]
        best = min(largest(cuts) for cuts in itertools.combinations(range(1, len(costs)), stages - 1))
        assert largest(mine) <= best * 1.1  # ops beside the products count, too


def test_large_modules_are_cut_inside() -> None:
    """Six stages of a model of three blocks: only what is above a share is opened."""
    model = GPT(3, 16, 2, 8, 0.0)
    index = sw.tensor(np.zeros((2, 8), np.int64))
    for module in itertools.chain(*modules(pipeline(model, (index,), num_stages=3))):
        assert module in ("blocks.0", "blocks.1", "blocks.2", "norm", "head") or "recent" in module
    pipe = pipeline(fixed(model), (index,), num_stages=6)
    assert any("blocks.1.qkv" in m for m in modules(pipe))
    pipe.check(index, rtol=1e-12)


def test_speeds_and_memory() -> None:
    model = row(8, 16)
    pipe = pipeline(model, (normal(2, 16),), num_stages=2, balance="params", speeds=(1.0, 3.0))
    assert [len(each) for each in modules(pipe)] == [2, 6]
    size = sum(p.nbytes for p in model[0].parameters())
    limits = MemoryLimits([4.5 * 3 * size, 4.5 * 8 * size])  # parameters four times, and activations
    pipe = pipeline(model, (normal(2, 16),), num_stages=2, balance="params", memory=limits)
    assert [len(each) for each in modules(pipe)] == [3, 5]
    with pytest.raises(
        ScheduleError, match=r"no way to cut 8 units into 2 stages fits the limits \[100.0, 100.0\]"
    ):
        pipeline(model, (normal(2, 16),), num_stages=2, memory=100.0)
    with pytest.raises(
        ScheduleError, match="memory: 3 limits for 2 stages; give one number, or one for each"
    ):
        pipeline(model, (normal(2, 16),), num_stages=2, memory=[1.0, 2.0, 3.0])


def test_memory_of_microbatches_in_flight() -> None:
    """Brute force: early stages keep more microbatches."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        count, stages = int(rng.integers(3, 7)), int(rng.integers(2, 4))
        costs, memory, live = (rng.integers(1, 9, count).tolist() for _ in range(3))
        limits, flight = rng.integers(8, 40, stages).tolist(), list(range(stages, 0, -1))

        def fits(
            cuts: tuple[int, ...], count: int = count, given: Any = (memory, live, limits, flight)
        ) -> bool:
            memory, live, limits, flight = given
            bounds = [0, *cuts, count]
            return all(
                sum(memory[a:b]) + flight[s] * sum(live[a:b]) <= limits[s]
                for s, (a, b) in enumerate(itertools.pairwise(bounds))
            )

        ways = [c for c in itertools.combinations(range(1, count), stages - 1) if fits(c)]
        options: Any = {"memory": memory, "limits": limits, "activations": live, "in_flight": flight}
        if not ways:
            with pytest.raises(ScheduleError, match="fits the limits"):
                partition(costs, stages, **options)
            continue
        found = partition(costs, stages, **options)[1:]
        worst = {c: max(sum(costs[a:b]) for a, b in itertools.pairwise([0, *c, count])) for c in ways}
        assert fits(found)
        assert worst[found] == min(worst.values())
    with pytest.raises(ScheduleError, match="activations= and in_flight= belong together, and to limits="):
        partition([1, 2], 2, activations=[1, 1])


def test_balance_by_time() -> None:
    """The stage with the slow layer has little else; the run leaves no trace."""
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)), nn.Linear(8, 3000), nn.Linear(3000, 8))
    sw.manual_seed(2)
    pipe = pipeline(model, (sw.ones(64, 8),), num_stages=2, balance="time")
    assert [len(each) for each in modules(pipe)] in ([5, 1], [4, 2])
    assert all(p.grad is None for p in model.parameters())
    empty = nn.Linear(3, 3, device="shape")
    with pytest.raises(ScheduleError, match='balance="time" runs the model, which needs values'):
        pipeline(nn.Sequential(empty, nn.ReLU()), (sw.ones(2, 3),), num_stages=2, balance="time")


def test_costs_are_those_of_schedules() -> None:
    pipe = pipeline(row(6, 8), (normal(4, 8),), num_stages=3)
    costs = pipe.costs(1e9, 1e9)
    assert isinstance(costs, Costs)
    simulated = simulate(Schedule1F1B(3, 6).program, costs)
    choice = best_schedule(3, 6, costs)
    assert choice.simulation.makespan <= simulated.makespan
