"""The timeline of a real step: in the form of a simulation, with arrows, and told by one."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import ScheduleError
from shardwise.collectives import run_threads
from shardwise.nn import functional as F
from shardwise.pipelining import (
    Costs,
    Pipeline,
    PipelineStage,
    Program,
    Simulation,
    draw,
    explain,
    fetch,
    simulate,
    stash,
    write_trace,
)
from shardwise.pipelining.schedule.named import NAMED
from shardwise.tensor import Tensor

X = np.random.default_rng(0).standard_normal((8, 3))
SLOW = 0.02  # seconds that a forward takes, so that the rest is small beside it


class Block(nn.Module):
    def __init__(self, index: int, last: int) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3, dtype=sw.float64)
        self.index, self.last = index, last

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu":
            time.sleep(SLOW)
        if self.index == 0:
            stash("x", self.linear(x))
        if self.index == self.last:
            x = x + fetch("x")
        return self.linear(x).tanh()


def timelines(name: str, p: int, evaluate: bool = False) -> list[Simulation]:
    program = NAMED[name].program(name, p, 4, 1 if NAMED[name].per_rank == (1,) else 2)

    def run(rank: int) -> Simulation:
        last = program.stages - 1
        stages = [PipelineStage(Block(s, last), s, last + 1) for s in program.stages_of(rank)]
        pipe = Pipeline(program, stages, loss_fn=F.mse_loss)
        with pytest.raises(ScheduleError, match="timeline: there has been no step yet"):
            pipe.timeline()
        args = (sw.tensor(X),) if pipe.has_first else ()
        for _ in range(2):
            if evaluate:
                pipe.eval(*args)
            else:
                pipe.step(*args, target=sw.tensor(X) if pipe.has_last else None)
        return pipe.timeline()

    return run_threads(run, p)


@pytest.mark.parametrize("name", ["GPipe", "ZBH1", "Interleaved1F1B", "ZBVZeroBubble", "DualPipeV"])
def test_a_step_as_it_was(name: str) -> None:
    found = timelines(name, 2)
    run = found[0]
    assert found[1] == run  # all ranks have the same
    program = run.program
    assert program.skips or "V" in name  # where the first and the last stage are on one rank
    for spans, actions in zip(run.spans, program, strict=True):
        assert [s.action for s in spans] == [
            a for a in actions if a.kind in ("F", "B", "I", "W", "OVERLAP_F_B")
        ]
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(spans))
    sends = [a for actions in program for a in actions if a.kind.startswith("SEND")]
    assert len(run.transfers) == len(sends)
    for transfer in run.transfers:
        made = run.spans[transfer.source][transfer.producer]
        assert made.end <= transfer.end + 1e-3 or made.action.parts  # the first part's leaves before its end
        assert transfer.amount == 2 * 3 * 8  # bytes of two rows of three float64
    assert run.makespan >= 4 * SLOW
    assert run.traffic


def test_the_simulator_tells_the_time_of_the_step() -> None:
    """Fed with the times of the actions, and no latency: what is left are messages and the interpreter."""
    run = timelines("1F1B", 2)[0]
    told = simulate(run.program, run.costs)
    assert told.makespan <= run.makespan * 1.001
    assert run.makespan <= told.makespan * 2.0  # on a machine that does other things too
    assert "rank 1" in str(explain(run)) or explain(run).gaps is not None
    assert len(draw(run).splitlines()) == 2


def test_its_trace_has_an_arrow_for_every_message(tmp_path: Path) -> None:
    run = timelines("ZBH1", 3)[0]
    write_trace(run, tmp_path / "trace.json", microseconds=1e6)
    events: list[dict[str, Any]] = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert len(begins) == len(run.transfers)
    slices = [e for e in events if e["ph"] == "X"]
    for at in (*begins.values(), *ends.values()):  # each end lies in what made or takes the value
        assert any(
            e["pid"] == at["pid"] and e["ts"] - 1e-3 <= at["ts"] <= e["ts"] + e["dur"] + 1e-3 for e in slices
        )
    names = {e["name"] for e in begins.values()}
    assert "0F>20" in names  # the skip value of the first microbatch
    assert "2I>00" in names


def test_a_timeline_of_an_evaluation() -> None:
    run = timelines("1F1B", 2, evaluate=True)[0]
    assert {span.action.kind for spans in run.spans for span in spans} == {"F"}


def test_times_of_single_actions_are_costs() -> None:
    program = Program.from_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1")
    costs = Costs(times={"1F0": 5.0, "0B1": 7.0})
    assert simulate(program, costs).makespan == simulate(program).makespan + 4.0 + 5.0
    assert costs.scaled(0, 2.0, 2).times == {"1F0": 5.0, "0B1": 14.0}
