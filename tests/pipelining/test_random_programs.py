"""Random valid programs over random models: losses and gradients are those of the model in one piece."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise import nn
from shardwise.collectives import run_threads
from shardwise.nn import functional as F
from shardwise.pipelining import Pipeline, PipelineStage, Program, Tied, check, fetch, stash
from shardwise.pipelining.action import Action
from shardwise.tensor import Tensor

WIDTH = 3


@dataclass(frozen=True)
class Plan:
    """What one example is made of.

    Attributes
    ----------
    homes : tuple of int
        Rank of each stage.
    ways : dict of int to tuple of int
        Stage -> later stages that take its skip value.
    frozen, checkpointed : set of int
        Stages.
    tied : bool
        Whether the first and the last stage share a matrix.
    """

    program: Program
    homes: tuple[int, ...]
    rows: int
    ways: dict[int, tuple[int, ...]]
    frozen: frozenset[int]
    checkpointed: frozenset[int]
    tied: bool
    steps: int


def random_program(homes: tuple[int, ...], microbatches: int, rng: random.Random) -> Program:
    """Let ranks do what is ready in a random order; backwards whole or in halves, at random."""
    stages = len(homes)
    ranks: list[list[Action]] = [[] for _ in range(max(homes) + 1)]
    done: set[tuple[str, int, int]] = set()
    halves = {(s, i): rng.random() < 0.5 for s in range(stages) for i in range(microbatches)}
    eager = rng.random()  # to begin forwards rather than backwards
    while True:
        ready = []
        for s in range(stages):
            for i in range(microbatches):
                if ("F", s, i) not in done:
                    if s == 0 or ("F", s - 1, i) in done:
                        ready.append((Action(s, "F", i), eager))
                elif ("I", s, i) not in done:
                    if s == stages - 1 or ("I", s + 1, i) in done:
                        ready.append((Action(s, "I" if halves[s, i] else "B", i), 1 - eager))
                elif halves[s, i] and ("W", s, i) not in done:
                    ready.append((Action(s, "W", i), 0.2))
        if not ready:
            return Program.of(ranks)
        [action] = rng.choices([a for a, _ in ready], [w + 0.01 for _, w in ready])
        assert action.microbatch is not None
        done.add(("I" if action.kind == "B" else action.kind, action.stage, action.microbatch))
        ranks[homes[action.stage]].append(action)


@st.composite
def plans(draw: st.DrawFn, ranks: int) -> Plan:
    stages = draw(st.integers(ranks, 5))
    homes = [
        *range(ranks),
        *draw(st.lists(st.integers(0, ranks - 1), min_size=stages - ranks, max_size=stages - ranks)),
    ]
    homes = draw(st.permutations(homes))
    microbatches = draw(st.integers(1, 5))
    rng = random.Random(draw(st.integers(0, 10**6)))
    pairs = [(s, t) for s in range(stages) for t in range(s + 1, stages)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4)) if pairs else []
    ways = {s: tuple(sorted(t for a, t in chosen if a == s)) for s in sorted({s for s, _ in chosen})}
    subset = st.frozensets(st.integers(0, stages - 1))
    frozen, tied = draw(subset), stages > 1 and draw(st.booleans())
    if tied:  # one parameter, which learns or does not
        frozen = frozen | {0, stages - 1} if 0 in frozen else frozen - {stages - 1}
    return Plan(
        random_program(tuple(homes), microbatches, rng), tuple(homes),
        microbatches * draw(st.integers(1, 2)) + draw(st.integers(0, 2)), ways,
        frozen, draw(subset), tied, draw(st.integers(1, 2)),
    )  # fmt: skip


class Part(nn.Module):
    """A linear layer, dropout, and values that come from afar and go there."""

    def __init__(self, index: int, plan: Plan) -> None:
        super().__init__()
        self.linear, self.dropout, self.norm = nn.Linear(WIDTH, WIDTH), nn.Dropout(0.25), nn.LayerNorm(WIDTH)
        rng = np.random.default_rng(index)
        for parameter in self.parameters():
            parameter.data = rng.standard_normal(parameter.shape)
            parameter.requires_grad_(index not in plan.frozen)
        if plan.tied and index in (0, len(plan.homes) - 1):
            self.linear.weight.data = np.random.default_rng(99).standard_normal((WIDTH, WIDTH))
        self.index, self.plan = index, plan

    def forward(self, x: Tensor, other: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y = self.norm(self.dropout(self.linear(x).tanh()) + x)
        for source, targets in self.plan.ways.items():
            if self.index in targets:
                y = y * fetch(f"from{source}")
        if self.index in self.plan.ways:
            stash(f"from{self.index}", (y + x).sigmoid())
        return y, (x if other is None else other + y * 0.1)


class Whole(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Part(i, plan) for i in range(len(plan.homes))])
        if plan.tied:
            self.parts[-1].linear.weight = self.parts[0].linear.weight

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values: tuple[Tensor, ...] = (x,)
        for part in self.parts:
            values = part(*values)
        return values[0], values[1]


class Named(nn.Module):
    def __init__(self, index: int, plan: Plan) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({str(index): Part(index, plan)})
        self.index = str(index)

    def forward(self, *values: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self.parts[self.index](*values)
        return found


def loss_of(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return F.mse_loss(output[0], target) + (output[1] * output[1]).mean()


def batch(plan: Plan) -> tuple[Any, Any]:
    rng = np.random.default_rng(plan.rows)
    return rng.standard_normal((plan.rows, WIDTH)), rng.standard_normal((plan.rows, WIDTH))


def gradients_of(module: nn.Module) -> list[Any]:
    return [None if p.grad is None else p.grad.numpy() for p in module.parameters()]


def unsplit(plan: Plan) -> tuple[list[list[Any]], float]:
    x, y = batch(plan)
    sw.manual_seed(5)
    model = Whole(plan)
    for _ in range(plan.steps):
        loss = loss_of(model(sw.tensor(x)), sw.tensor(y))
        if loss.requires_grad:
            loss.backward()
    return [gradients_of(part) for part in model.parts], float(loss.detach())


def split(plan: Plan, rank: int) -> tuple[dict[int, list[Any]], list[float]]:
    x, y = batch(plan)
    sw.manual_seed(5)
    count = len(plan.homes)
    stages = [
        PipelineStage(Named(s, plan), s, count, checkpoint=s in plan.checkpointed)
        for s in range(count) if plan.homes[s] == rank
    ]  # fmt: skip
    places = tuple([(s, f"parts.{s}.linear.weight") for s in (0, count - 1)])
    tied = [Tied(places)] if plan.tied else []
    pipe = Pipeline(plan.program, stages, loss_fn=loss_of, tied=tied)
    losses: list[Tensor] = []
    for _ in range(plan.steps):
        pipe.step(
            *((sw.tensor(x),) if pipe.has_first else ()),
            target=sw.tensor(y) if pipe.has_last else None,
            losses=losses,
        )
    assert not any(stage.live for stage in stages)
    return {s.stage_index: gradients_of(s.submodule) for s in stages}, [float(each) for each in losses]


def close(mine: Any, wanted: Any) -> None:
    """Equal to rounding; where a frozen parameter has none, a sum of nothing may be there as zeros."""
    if wanted is None or mine is None:
        assert mine is None or not mine.any()
        assert wanted is None or not wanted.any()
    else:
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_programs_train_as_the_unsplit_model(ranks: int, data: st.DataObject) -> None:
    plan = data.draw(plans(ranks))
    assert check(plan.program) == []
    wanted, loss = unsplit(plan)
    found = run_threads(lambda rank: split(plan, rank), ranks)
    gradients = {stage: values for each, _ in found for stage, values in each.items()}
    assert sorted(gradients) == list(range(len(plan.homes)))
    for stage, values in gradients.items():
        for mine, other in zip(values, wanted[stage], strict=True):
            close(mine, other)
    losses = next(values for _, values in found if values)
    parts = [plan.rows // len(losses) + (i < plan.rows % len(losses)) for i in range(len(losses))]
    np.testing.assert_allclose(np.average(losses, weights=parts), loss, rtol=1e-12)
