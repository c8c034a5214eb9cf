"""The same failures without `shardwise run`: under the mpiexec of MPI itself, with a world of Shardwise."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command import Ended, all_gone, clean_environment
from shardwise.launch.command import mpi_command
from shardwise.launch.cores import find_cores
from shardwise.launch.mpi import find_mpi

Mpiexec = Callable[[Path], Ended]
LONGEST = 9.0  # five seconds to end, and what starting may take on a busy machine

HEAD = """
    import os, signal, sys
    import shardwise as sw
    RANK = sw.rank()
    sw.barrier()
"""


@pytest.fixture
def mpiexec() -> Mpiexec:
    """Runs a script on three ranks under plain mpiexec."""

    def run(script: Path) -> Ended:
        command = mpi_command(find_mpi(), 3, (sys.executable, str(script)), find_cores().count)
        start = time.monotonic()
        done = subprocess.run(
            command.argv,
            env={**clean_environment(OMP_NUM_THREADS="1"), **command.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - start)

    return run


def test_a_job_that_ends_well(script: Callable[[str], Path], mpiexec: Mpiexec) -> None:
    done = mpiexec(script(HEAD + "    print('rank', RANK, 'of', sw.world_size())\n"))
    assert done.code == 0
    assert sorted(done.out.split("\n"))[-3:] == [f"rank {rank} of 3" for rank in range(3)]


@pytest.mark.parametrize(
    ("failure", "tracebacks"),
    [
        ("if RANK == 1: raise ValueError('boom')", 1),
        ("raise ValueError('boom')", 1),
        ("if RANK == 1: sys.exit(3)", 0),
        ("if RANK == 1: os.kill(os.getpid(), signal.SIGKILL)", 0),
    ],
    ids=["one raises", "all raise", "one exits", "one is killed"],
)
def test_a_failure_ends_the_whole_job(
    failure: str, tracebacks: int, script: Callable[[str], Path], mpiexec: Mpiexec
) -> None:
    done = mpiexec(script(HEAD + f"    {failure}\n    sw.barrier()\n"))
    assert done.code != 0
    assert done.seconds < LONGEST
    assert done.err.count("Traceback (most recent call last)") == tracebacks
    assert done.err.count("ValueError: boom\n") == tracebacks


def test_signals_to_mpiexec_end_the_job(script: Callable[[str], Path], tmp_path: Path) -> None:
    path = script(
        HEAD + "    open(f'{RANK}', 'w').write(str(os.getpid()))\n    import time; time.sleep(60)\n"
    )
    command = mpi_command(find_mpi(), 2, (sys.executable, str(path)), find_cores().count)
    process = subprocess.Popen(
        command.argv,
        env={**clean_environment(), **command.environment},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 30
        while not all((tmp_path / str(rank)).exists() for rank in range(2)):
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.2)
        pids = [(tmp_path / str(rank)).read_text() for rank in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) != 0
    finally:
        process.kill()
        process.wait()
    assert all_gone(pids)
