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
LONGEST = 30.0  # seconds from when all ranks are there: five to end, and what a busy machine takes

HEAD = """
    import os, pathlib, signal, sys, time
    import shardwise as sw
    RANK = sw.rank()
    sw.barrier()
    if RANK == 0: pathlib.Path(__file__).with_name("moment").write_text(str(time.time()))
    sw.barrier()
"""


@pytest.fixture
def mpiexec() -> Mpiexec:
    """Runs a script on three ranks under plain mpiexec."""

    def run(script: Path) -> Ended:
        command = mpi_command(find_mpi(), 3, (sys.executable, str(script)), find_cores().count)
        done = subprocess.run(
            command.argv,
            env={**clean_environment(OMP_NUM_THREADS="1"), **command.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        end, moment = time.time(), script.with_name("moment")
        seconds = end - float(moment.read_text()) if moment.exists() else 0.0
        return Ended(done.returncode, done.stdout, done.stderr, seconds)

    return run


def test_a_job_that_ends_well(script: Callable[[str], Path], mpiexec: Mpiexec) -> None:
    done = mpiexec(script(HEAD + "    print('rank', RANK, 'of', sw.world_size())\n"))
    assert done.code == 0
    assert sorted(done.out.split("\n"))[-3:] == [f"rank {rank} of 3" for rank in range(3)]


def test_the_launcher_may_count_the_ranks_of_a_host_in_its_own_way(script: Callable[[str], Path]) -> None:
    """As Open MPI's does by itself where there are more ranks than cores: 0, 2, 1."""
    mpi = find_mpi()
    path = script("""
        import os
        from shardwise import collectives
        collectives.barrier()
        names = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
        said = next((os.environ[name] for name in names if name in os.environ), None)
        assert said in (None, str(collectives.local_rank())), (said, collectives.local_rank())
        print("alike")
    """)
    options = ["--oversubscribe"] if mpi.flavour == "openmpi" else []
    done = subprocess.run(
        [mpi.mpiexec, *options, "-n", "3", sys.executable, str(path)],
        env=clean_environment(
            OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["alike"] * 3), done.stderr


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
    assert 0 < done.seconds < LONGEST
    assert done.err.count("Traceback (most recent call last)") == tracebacks
    assert done.err.count("ValueError: boom\n") == tracebacks


def test_signals_to_mpiexec_end_the_job(script: Callable[[str], Path], tmp_path: Path) -> None:
    path = script(
        HEAD + "    open(f'{RANK}', 'w').write(str(os.getpid()))\n    import time; time.sleep(150)\n"
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
        end = time.monotonic() + 90
        files = [tmp_path / str(rank) for rank in range(2)]
        while not all(pids := [file.read_text() if file.exists() else "" for file in files]):
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=40) != 0
    finally:
        process.kill()
        process.wait()
    assert all_gone(pids)


def test_a_killed_job_leaves_no_shared_memory(
    script: Callable[[str], Path], mpiexec: Mpiexec, tmp_path: Path
) -> None:
    body = f"""
    import re
    maps = open("/proc/self/maps").read()
    open(f"{tmp_path}/{{RANK}}", "w").write(" ".join(re.findall(r"/dev/shm/mpich\\S+", maps)))
    sw.barrier()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert mpiexec(script(HEAD + body)).code != 0
    mapped = {name for rank in range(3) for name in (tmp_path / str(rank)).read_text().split()}
    assert [name for name in mapped if Path(name).exists()] == []
    assert mapped or find_mpi().flavour != "mpich"
