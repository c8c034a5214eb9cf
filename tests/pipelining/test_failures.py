"""What goes wrong in a pipeline is said on all ranks: what was wrong, where, and who waited for it."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from harness.command import execute
from shardwise import nn
from shardwise.backend.errors import CollectiveError, ScheduleError
from shardwise.collectives import get_world, run_threads
from shardwise.nn import functional as F
from shardwise.pipelining import Pipeline, PipelineStage, Program
from shardwise.pipelining.schedule.named import NAMED
from shardwise.tensor import Tensor

X = np.random.default_rng(0).standard_normal((8, 3))


class Block(nn.Module):
    def __init__(self, width: int = 3, out: int = 3) -> None:
        super().__init__()
        self.linear = nn.Linear(width, out, dtype=sw.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).tanh()


def said(
    modules: Callable[[int], nn.Module],
    p: int = 3,
    program: Program | None = None,
    args: Callable[[int], tuple[Any, ...]] | None = None,
    **options: Any,
) -> list[str]:
    """What each rank says of a step that cannot be done."""
    program = NAMED["1F1B"].program("1F1B", p, 4, 1) if program is None else program

    def run(rank: int) -> str:
        stage = PipelineStage(modules(rank), rank, p, **options.get("stage", {}).get(rank, {}))
        pipe = Pipeline(program, [stage], loss_fn=options.get("loss_fn", F.mse_loss))
        given = args(rank) if args is not None else (sw.tensor(X),) if rank == 0 else ()
        with pytest.raises(ScheduleError) as caught:
            pipe.step(*given, target=options.get("target", sw.tensor(X)) if rank == p - 1 else None)
        assert not stage.live
        return str(caught.value)

    return run_threads(run, p)


def test_wrong_shapes_are_refused_on_all_ranks_before_anything_runs() -> None:
    for text in said(lambda rank: Block(width=4 if rank == 1 else 3)):
        assert text.startswith("stage 1 on rank 1 cannot run: ShapeError: ")
        assert "4" in text


def test_a_stage_that_gives_no_tensor() -> None:
    class Wrong(Block):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x), "text"

    for text in said(lambda rank: Wrong() if rank == 0 else Block()):
        assert "stage 0 on rank 0 cannot run: ScheduleError: stage 0 gives a str as result 1" in text


def test_declared_shapes_are_compared_field_by_field() -> None:
    wrong = np.zeros((2, 5), np.float32)
    for text in said(lambda rank: Block(), stage={1: {"input_args": wrong}}):
        assert text.startswith(
            "stage 1 on rank 1 cannot run: ScheduleError: stage 1: input_args says otherwise than what "
            "comes: tensor 0 has the shape [2, 3], wanted [2, 5]; tensor 0 has the dtype float64, "
            "wanted float32"
        )
    for text in said(lambda rank: Block(), stage={2: {"output_args": [wrong, wrong]}}):
        assert "output_args says otherwise than what comes: wanted 2 tensors, got 1" in text


def test_arguments_on_the_wrong_rank() -> None:
    for text in said(lambda rank: Block(), args=lambda rank: (sw.tensor(X),) if rank < 2 else ()):
        assert text.startswith(
            "rank 1: got 1 positional arguments without the first stage; give them to the rank"
        )


def test_a_batch_too_small_is_said_on_all_ranks() -> None:
    for text in said(lambda rank: Block(), args=lambda rank: (sw.tensor(X[:3]),) if rank == 0 else ()):
        assert text == (
            "rank 0: argument 0 has 3 rows along dim 0, and 4 microbatches need one each; use fewer, or a "
            "larger batch"
        )


def test_a_missing_target_or_loss_is_said_on_all_ranks() -> None:
    for options in ({"target": None}, {"loss_fn": None}):
        for text in said(lambda rank: Block(), **options):
            assert text.startswith("rank 2: a step with backwards needs loss_fn= of the pipeline and target=")


def test_other_programs_on_other_ranks() -> None:
    def run(rank: int) -> str:
        name = "GPipe" if rank == 1 else "1F1B"
        with pytest.raises(ScheduleError) as caught:
            Pipeline(NAMED[name].program(name, 3, 4, 1), [PipelineStage(Block(), rank, 3)])
        return str(caught.value)

    assert run_threads(run, 3) == ["ranks [1] were given another program than rank 0"] * 3


@pytest.mark.parametrize(
    ("ranks", "wanted"),
    [
        ((0, 1), "rank 2 has no place in this pipeline of ranks [0, 1]"),
        ((0, 3), "the program is for 2 ranks, and the world has 3: ranks=[0, 3]"),
        ((0, 0), "the program is for 2 ranks, and the world has 3: ranks=[0, 0]"),
        ((0, 1, 2), "the program is for 2 ranks, and the world has 3: ranks=[0, 1, 2]"),
    ],
)
def test_ranks_that_are_not_there(ranks: tuple[int, ...], wanted: str) -> None:
    def run(rank: int) -> None:
        if rank == 2:
            with pytest.raises(ScheduleError, match=re.escape(wanted)):
                Pipeline(NAMED["GPipe"].program("GPipe", 2, 2, 1), [], ranks=ranks)

    run_threads(run, 3)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("0F0,0B0\n1F0", "V1"),
        ("0B0,0F0\n1F0,1B0", "V2"),
        ("0F0,1F0,0B0\n1B0", "V3"),
        ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1", "V6"),
        ("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0", "V7"),
        ("0F0,0B0,0REDUCE_GRAD,0F1,0B1\n1F0,1B0,1F1,1B1,1REDUCE_GRAD", "V9"),
    ],
)
def test_bad_programs_never_begin(text: str, rule: str) -> None:
    with pytest.raises(ScheduleError, match=f"{rule} rank"):
        Pipeline(Program.from_text(text), [])


@pytest.mark.parametrize("at", ["forward", "backward", "loss"])
def test_what_a_stage_raises_on_data_reaches_the_caller(at: str) -> None:
    """It fails in the third microbatch; the other ranks stop, and say at which action."""

    class Fails(Block):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            if x.device.type != "cpu":
                return y
            self.seen = getattr(self, "seen", 0) + 1
            if self.seen == 3 and at == "forward":
                raise ZeroDivisionError("of the third forward")
            if self.seen == 3 and at == "backward":
                y.register_hook(self.fail)
            return y

        def fail(self, grad: Tensor) -> Tensor:
            raise ZeroDivisionError("of the third backward")

    def loss(output: Tensor, target: Tensor) -> Tensor:
        if at == "loss":
            raise ZeroDivisionError("of the loss")
        return F.mse_loss(output, target)

    stopped: list[str] = []

    def run(rank: int) -> None:
        stage = PipelineStage(Fails() if rank == 1 and at != "loss" else Block(), rank, 3)
        pipe = Pipeline(NAMED["1F1B"].program("1F1B", 3, 4, 1), [stage], loss_fn=loss)
        try:
            pipe.step(*((sw.tensor(X),) if rank == 0 else ()), target=sw.tensor(X) if rank == 2 else None)
        except CollectiveError as error:
            stopped.append(str(error))
            raise
        finally:
            assert not stage.live

    with pytest.raises(ZeroDivisionError, match="of the"):
        run_threads(run, 3)
    assert stopped
    for text in stopped:
        assert re.match(
            r"rank \d at \d[FB]\d \(place \d+\) waits for the (output|gradient of the input) of stage", text
        )


def test_a_rank_that_does_not_come_is_named_with_the_action_that_waits() -> None:
    def run(rank: int) -> str:
        class Sleeps(Block):
            def forward(self, x: Tensor) -> Tensor:
                if x.device.type == "cpu":
                    time.sleep(1.0)
                return super().forward(x)

        stage = PipelineStage(Sleeps() if rank else Block(), rank, 2)
        pipe = Pipeline(Program.from_text("0F0,0B0\n1F0,1B0"), [stage], loss_fn=F.mse_loss)
        if rank == 0:
            get_world().timeout = 0.3
            with pytest.raises(CollectiveError) as caught:
                pipe.step(sw.tensor(X))
            return str(caught.value)
        pipe.step(target=sw.tensor(X))
        return ""

    text = run_threads(run, 2)[0]
    assert text.startswith(
        "rank 0 at 0B0 (place 3) waits for the gradient of the input of stage 1 for microbatch 0 from "
        "rank 1: "
    )


SCRIPT = """
import os, signal, sys, time
import numpy as np
import shardwise as sw
from shardwise import nn
from shardwise.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
rank, n = sw.rank(), sw.world_size()

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.seen = nn.Linear(64, 64), 0

    def forward(self, x):
        if x.device.type == "cpu":
            self.seen += 1
            if rank == 1 and self.seen == 3:
                {fail}
        return self.linear(x)

stages = [PipelineStage(Block(), s, 2 * n) for s in (rank, rank + n)]
schedule = ScheduleInterleavedZeroBubble(stages, 2 * n, nn.functional.mse_loss)
x = sw.ones(8 * n, 64)
schedule.step(*((x,) if rank == 0 else ()), target=x if rank == n - 1 else None)
"""


@pytest.mark.parametrize(
    ("fail", "wanted"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", r"rank 1 .*SIGKILL"),
        ("raise ValueError('no third time')", r"ValueError: no third time"),
    ],
)
def test_a_rank_that_dies_ends_the_job(tmp_path: Path, fail: str, wanted: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).replace("{fail}", fail))
    done = execute(["-m", "shardwise", "run", "-n", "3", script], tmp_path)
    assert done.code != 0
    assert re.search(wanted, done.err), done.err
    assert done.err.count("Traceback (most recent call last)") <= 1, done.err
