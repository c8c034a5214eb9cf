"""One rank of the benchmark of pipelines: ours and torch's take turns in the same processes.

Run by ``pipeline.py`` on every rank; rank 0 prints one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import shardwise as sw
from contest.collective import start_gloo
from contest.gpt import Block
from contest.task import Task
from shardwise import collectives, nn
from shardwise.backend.array import Array
from shardwise.nn import functional as F
from shardwise.pipelining import PipelineStage, get_schedule_class, simulate

__all__ = ["NAMES", "main"]

NAMES = ("GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble")
MICROBATCHES = 8
_LAYERS = 8

Step = Callable[[], object]


class Ours:
    """The blocks as stages of ours, one schedule at a time."""

    def __init__(self, task: Task) -> None:
        weights = task.weights()
        self.blocks = [Block(task) for _ in range(task.layers)]
        for i, block in enumerate(self.blocks):
            prefix = f"h.{i}."
            state = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
            block.load_state_dict(state)
        self.x, self.y = (sw.tensor(each) for each in batch(task))
        self.schedules: dict[str, Any] = {}

    def step(self, name: str) -> Step:
        """Return what does a step of a schedule."""
        ranks, rank = collectives.world_size(), collectives.rank()
        on_paper = get_schedule_class(name)(ranks, MICROBATCHES)
        count = on_paper.n_stages
        stages = [
            PipelineStage(nn.Sequential(*parts(self.blocks, index, count)), index, count)
            for index in on_paper.stages_of(rank)
        ]
        schedule = get_schedule_class(name)(stages, MICROBATCHES, F.mse_loss)
        self.schedules[name] = schedule
        args = (self.x,) if stages[0].is_first else ()
        given = {"target": self.y, "losses": []} if stages[-1].is_last else {}
        return lambda: schedule.step(*args, **given)

    def alone(self) -> None:
        """Do what all ranks together do, on one."""
        n = MICROBATCHES
        for x, y in zip(self.x.chunk(n), self.y.chunk(n), strict=True):
            for block in self.blocks:
                x = block(x)
            F.mse_loss(x, y).backward()

    def forget(self) -> None:
        """Drop the gradients."""
        for block in self.blocks:
            block.zero_grad()


class Torch:
    """The same with torch.distributed.pipelining."""

    def __init__(self, task: Task) -> None:
        torch = importlib.import_module("torch")
        self.torch, self.pipelining = torch, importlib.import_module("torch.distributed.pipelining")
        make = importlib.import_module("contest.torch_gpt").Block
        weights = task.weights()
        self.blocks = [make(task) for _ in range(task.layers)]
        for i, block in enumerate(self.blocks):
            prefix = f"h.{i}."
            block.load_state_dict({
                name.removeprefix(prefix): torch.from_numpy(w.copy())
                for name, w in weights.items() if name.startswith(prefix)
            })  # fmt: skip
        self.x, self.y = (torch.from_numpy(each.copy()) for each in batch(task))

    def step(self, name: str) -> Step:
        """Return what does a step of a schedule."""
        ranks, rank, torch = collectives.world_size(), collectives.rank(), self.torch
        on_paper = get_schedule_class(name)(ranks, MICROBATCHES)
        count = on_paper.n_stages
        stages = [
            self.pipelining.PipelineStage(
                torch.nn.Sequential(*parts(self.blocks, index, count)), index, count, torch.device("cpu")
            )
            for index in on_paper.stages_of(rank)
        ]
        kind = getattr(self.pipelining, f"Schedule{name}")
        single = name in ("GPipe", "1F1B")
        schedule = kind(stages[0] if single else stages, MICROBATCHES, torch.nn.functional.mse_loss)
        args = (self.x,) if 0 in on_paper.stages_of(rank) else ()
        last = count - 1 in on_paper.stages_of(rank)
        given = {"target": self.y, "losses": []} if last else {}
        return lambda: schedule.step(*args, **given)

    def alone(self) -> None:
        """Do what all ranks together do, on one."""
        n = MICROBATCHES
        for x, y in zip(self.x.chunk(n), self.y.chunk(n), strict=True):
            for block in self.blocks:
                x = block(x)
            self.torch.nn.functional.mse_loss(x, y).backward()

    def forget(self) -> None:
        """Drop the gradients."""
        for block in self.blocks:
            block.zero_grad()


def batch(task: Task) -> tuple[Array, Array]:
    """Inputs and targets of one step, for all microbatches."""
    rng = np.random.default_rng(1)
    shape = (task.batch, task.context, task.dim)
    return tuple([rng.standard_normal(shape).astype(np.float32) for _ in range(2)])  # type: ignore[return-value]


def parts(blocks: Sequence[Any], index: int, count: int) -> Sequence[Any]:
    """Return the blocks of a stage."""
    per = len(blocks) // count
    return blocks[index * per : (index + 1) * per]


def turn(do: Step, forget: Step, steps: int) -> list[float]:
    """Milliseconds of some steps, by the slowest rank, after one that does not count."""
    took = []
    for _ in range(steps + 1):
        collectives.barrier()
        start = time.perf_counter()
        do()
        collectives.barrier()
        took.append((time.perf_counter() - start) * 1e3)
        forget()
    return took[1:]


def main(argv: Sequence[str]) -> None:
    """Measure what the JSON in the first argument says."""
    plan: dict[str, Any] = json.loads(argv[0])
    task, names = Task.from_json(plan["task"]), plan["names"]
    rank, n = collectives.rank(), collectives.world_size()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) >= n:
        os.sched_setaffinity(0, {cores[rank]})
    ours = Ours(task)
    sides: dict[str, Ours | Torch] = {"ours": ours}
    if start_gloo(plan["gloo"]):
        sides["torch"] = Torch(task)
    steps = {(side, name): one.step(name) for side, one in sides.items() for name in names}
    took: dict[str, list[list[float]]] = {}
    modelled: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(plan["rounds"] + 1):  # the first one warms up
        for side, one in sides.items():
            laps = turn(one.alone, one.forget, plan["steps"])
            if round_:
                took.setdefault(f"{side}: alone", []).append(laps)
        for name in names:
            for side, one in sides.items():
                laps = turn(steps[side, name], one.forget, plan["steps"])
                if round_:
                    took.setdefault(f"{side}: {name}", []).append(laps)
            run = ours.schedules[name].pipeline.timeline()
            modelled[name].append(run.makespan / simulate(run.program, run.costs).makespan)
    if rank == 0:
        ratios = {name: statistics.median(values[1:] or values) for name, values in modelled.items()}
        sys.stdout.write(json.dumps({"took": took, "modelled": ratios}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
