"""Processes that a rank forks: they may compute and end as they like, but not communicate as the rank."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.command import clean_environment
from shardwise.launch.command import mpi_command
from shardwise.launch.cores import find_cores
from shardwise.launch.mpi import find_mpi

HEAD = """
import os, sys
import numpy as np
from shardwise import collectives as c, errors
rank = c.rank()
c.barrier()
child = os.fork()
"""
TAIL = """
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert float(c.all_reduce(1.0)) == 2.0
if rank == 0:
    print(f"child ended with {status}")
"""


def run(tmp_path: Path, in_child: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(HEAD + "if child == 0:\n" + textwrap.indent(textwrap.dedent(in_child), "    ") + TAIL)
    command = mpi_command(find_mpi(), 2, (sys.executable, str(script)), find_cores().count)
    return subprocess.run(
        command.argv,
        env={**clean_environment(OMP_NUM_THREADS="1"), **command.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.mark.parametrize(("end", "code"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("raise SystemExit", 0)])
def test_the_end_of_a_fork_is_not_the_end_of_its_rank(tmp_path: Path, end: str, code: int) -> None:
    done = run(tmp_path, end)
    assert (done.returncode, done.stdout) == (0, f"child ended with {code}\n"), done.stderr


def test_an_exception_in_a_fork_is_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, "raise ValueError(f'boom {rank}')")
    assert (done.returncode, done.stdout) == (0, "child ended with 1\n")
    assert sorted(line for line in done.stderr.splitlines() if "boom" in line and "raise" not in line) == [
        "ValueError: boom 0",
        "ValueError: boom 1",
    ]


@pytest.mark.parametrize(
    ("op", "name"), [("c.barrier()", "barrier"), ("c.isend(np.ones(2), 1 - rank)", "send")]
)
def test_a_fork_is_no_rank(tmp_path: Path, op: str, name: str) -> None:
    done = run(
        tmp_path,
        f"""
        try:
            {op}
        except errors.CollectiveError as error:
            assert str(error) == (
                f"{name}: this process was forked from rank {{rank}} and is no rank itself. Communicate "
                "in the rank, and pass the result on; or start the process with the 'spawn' method of "
                "multiprocessing."
            ), error
            sys.exit(7)
        """,
    )
    assert (done.returncode, done.stdout) == (0, "child ended with 7\n"), done.stderr
