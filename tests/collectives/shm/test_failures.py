"""Ranks that die, are interrupted, come late or idle while others of their host wait in shared memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from harness.command import Ended, clean_environment
from shardwise.launch.command import mpi_command
from shardwise.launch.cores import find_cores
from shardwise.launch.mpi import find_mpi

LIMIT = 90.0  # seconds, of which compiling and starting on a busy machine are most

HEAD = """
import os, signal, time
import numpy as np
from shardwise import collectives as c
rank, n = c.rank(), c.world_size()
x = np.ones({size}, np.float32)
c.all_reduce(x)
assert type(c.get_group().channel).__name__ == "ShmChannel"

"""


def run(tmp_path: Path, body: str, size: int = 3, n: int = 3) -> Ended:
    script = tmp_path / "script.py"
    script.write_text(HEAD.format(size=size) + textwrap.dedent(body))
    command = mpi_command(find_mpi(), n, (sys.executable, str(script)), find_cores().count)
    began = time.monotonic()
    # Into files: an orphan that keeps a pipe open would hold up the test.
    with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
        done = subprocess.run(
            command.argv,
            env={**clean_environment(OMP_NUM_THREADS="1"), **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            timeout=150,
            check=False,
        )
    texts = [(tmp_path / name).read_text(errors="replace") for name in ("out", "err")]
    return Ended(done.returncode, *texts, time.monotonic() - began)


@pytest.mark.parametrize("size", [3, 4_000_000])
@pytest.mark.parametrize("when", ["asleep", "at work"])
def test_a_rank_is_killed_while_others_wait(tmp_path: Path, size: int, when: str) -> None:
    late = "time.sleep(1)" if when == "asleep" else "[c.all_reduce(x) for _ in range(20)]"
    done = run(
        tmp_path,
        f"""
        if rank == 1:
            {late}
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            c.all_reduce(x)
        """,
        size,
    )
    assert done.code != 0
    assert "Traceback" not in done.err
    assert done.seconds < LIMIT


def test_an_interrupt_comes_through(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        if rank == 0:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            began = time.monotonic()
            try:
                c.all_reduce(x)
            except KeyboardInterrupt:
                print("interrupted", time.monotonic() - began < 1.5, flush=True)
            os._exit(0)
        time.sleep(2)
        os._exit(0)
        """,
        n=2,
    )
    assert "interrupted True" in done.out


def test_a_rank_that_waits_leaves_the_core_to_others(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        if rank == 0:
            time.sleep(1.5)
        began, used = time.monotonic(), time.process_time()
        c.all_reduce(x)
        if rank:
            print(f"{(time.process_time() - used) / (time.monotonic() - began):.3f} of a core")
        """,
    )
    parts = [float(line.split()[0]) for line in done.out.splitlines() if "of a core" in line]
    assert len(parts) == 2
    assert max(parts) < 0.15  # the first 100 ms and a busy machine among it


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        arena = c.empty_symmetric(1000)
        arena[...] = rank
        c.all_reduce(arena, out=arena)
        c.shutdown()
        del arena
        maps = sum("memfd:shardwise" in line for line in open("/proc/self/maps"))
        left = [name for name in os.listdir("/dev/shm") if name.startswith("shardwise")]
        print("left", maps, left)
        """,
    )
    assert done.out.count("left 0 []") == 3, done.out + done.err
