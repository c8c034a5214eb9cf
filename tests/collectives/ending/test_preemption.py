"""The end of a job that the batch system wants, agreed on by all ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardwise as sw
from harness.command import clean_environment
from shardwise.collectives import run_threads

WINCH = signal.SIGWINCH  # ignored by default, and by the test run


@pytest.fixture
def notice() -> Iterator[None]:
    """A world whose signals are given back."""
    yield
    sw.collectives.get_world().notice.close()
    sw.collectives.get_world().notice.came = False


@pytest.mark.mpi(min_size=1)
def test_one_rank_is_told_and_all_hear_it_at_the_same_step(notice: None) -> None:
    sw.watch_preemption([WINCH])
    last = sw.world_size() - 1
    steps = 0
    while not sw.preempted():
        steps += 1
        if steps == 3 and sw.rank() == last:
            os.kill(os.getpid(), WINCH)
            time.sleep(0.01)
    assert steps == 3


@pytest.mark.mpi(min_size=2)
def test_a_reason_of_one_rank_is_one_for_all() -> None:
    assert sw.preempted(also=sw.rank() == 1)
    assert not sw.preempted()
    sw.collectives.get_world().notice.close()


def test_ranks_that_are_threads_take_no_signals() -> None:
    def work(rank: int) -> tuple[bool, bool]:
        sw.watch_preemption()
        return sw.preempted(), sw.preempted(also=rank == 2)

    assert run_threads(work, 3) == [(False, True)] * 3


def test_signals_end_nothing_and_handlers_of_the_program_are_called(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal\n"
        "import shardwise as sw\n"
        "heard = []\n"
        "signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))\n"
        "assert not sw.preempted()\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "assert sw.preempted()\n"
        "assert heard == [signal.SIGUSR1]\n"
        "sw.shutdown()\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
        "assert not sw.preempted()\n"
    )
    subprocess.run([sys.executable, str(script)], env=clean_environment(), timeout=150, check=True)
