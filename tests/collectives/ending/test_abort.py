"""Jobs under plain mpiexec that end badly: one traceback, an exit code, in seconds. And some that do not."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

FIVE_SECONDS = 5.0
START = 30.0  # what starting the job may take by itself on a busy machine

HEAD = """
import os, sys, threading, time
import numpy as np
from shardwise import collectives as c
rank, n = c.rank(), c.world_size()

def work():
    while True:
        c.all_reduce(np.ones(3))

"""


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def tracebacks(self) -> int:
        return self.err.count("Traceback (most recent call last)")

    @property
    def said(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("shardwise: ")]


def environment(**extra: str) -> dict[str, str]:
    """The environment of a user under no launcher, for MPIs that refuse root or more ranks than cores."""
    launchers = ("OMPI_COMM", "PMI", "MPI_LOCAL", "HYDI", "PRTE", "SLURM", "RANK", "WORLD_SIZE", "LOCAL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    more = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMP_NUM_THREADS": "1",
    }
    return kept | more | extra


def run(tmp_path: Path, body: str, n: int = 3, head: str = HEAD) -> Ended:
    script = tmp_path / "script.py"
    script.write_text(head + textwrap.dedent(body))
    beside = Path(sys.prefix, "bin", "mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert mpiexec is not None, "there is no mpiexec; install one with pip install 'shardwise[mpich]'"
    began = time.monotonic()
    with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
        done = subprocess.run(
            [mpiexec, "-n", str(n), sys.executable, str(script)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment(),
            timeout=150,
        )
    seconds = time.monotonic() - began
    texts = [(tmp_path / name).read_text(errors="replace") for name in ("out", "err")]
    return Ended(exit_code(done.returncode, texts[1]), *texts, seconds)


def exit_code(code: int, err: str) -> int:
    """The code of the job, also where the launcher itself crashed after the job had ended.

    Open MPI 5.0's prterun now and then dies of SIGSEGV behind its message on an abort, which has the code.
    """
    reported = re.search(r"Errorcode: (\d+)", err)
    return int(reported.group(1)) if code == -signal.SIGSEGV and reported else code


def test_a_crash_of_the_launcher_hides_no_code() -> None:
    banner = "MPI_ABORT was invoked on rank 0\n  Errorcode: 3\n"
    assert [exit_code(1, banner), exit_code(-11, banner), exit_code(-11, ""), exit_code(0, "")] == [
        1,
        3,
        -11,
        0,
    ]


def test_one_raises_while_the_others_wait(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        if rank == 1:
            raise ValueError("boom")
        work()
        """,
    )
    assert done.code == 1
    assert done.tracebacks == 1
    assert "ValueError: boom" in done.err
    assert len(done.said) == 1
    assert done.said[0].startswith("shardwise: rank 1 of 3 on ")
    assert done.said[0].endswith(" raised; the job ends:")
    assert done.seconds < FIVE_SECONDS + START


@pytest.mark.parametrize("who", ["True", "rank > 0"], ids=["all", "all but rank 0"])
def test_all_raise_alike(tmp_path: Path, who: str) -> None:
    done = run(
        tmp_path,
        f"""
        if {who}:
            raise ValueError("boom")
        work()
        """,
        n=4,
    )
    assert done.code == 1
    assert done.tracebacks == 1
    assert len(done.said) == 1


def test_one_raises_with_threads_alive_and_the_others_blocked_in_mpi(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        from mpi4py import MPI
        threading.Thread(target=time.sleep, args=(60,)).start()
        if rank == 2:
            raise ValueError("boom")
        MPI.COMM_WORLD.Barrier()
        """,
    )
    assert done.code == 1
    assert done.tracebacks == 1
    assert done.seconds < FIVE_SECONDS + START


def test_a_thread_raises(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        def fail():
            raise ValueError("boom")
        if rank == 1:
            threading.Thread(target=fail).start()
        work()
        """,
        n=2,
    )
    assert done.code == 1
    assert done.tracebacks == 1


@pytest.mark.parametrize("how", ["sys.exit(3)", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_one_leaves_without_a_word(tmp_path: Path, how: str) -> None:
    done = run(
        tmp_path,
        f"""
        if rank == 1:
            {how}
        work()
        """,
    )
    assert done.code != 0
    assert done.tracebacks == 0
    assert done.seconds < FIVE_SECONDS + START
    if how == "sys.exit(3)":
        assert done.code == 3
        assert len(done.said) == 1
        assert done.said[0].endswith(" called sys.exit(3); the job ends.")


@pytest.mark.parametrize("how", ["sys.exit(0)", "raise SystemExit(3)"])
def test_one_is_missed_by_those_who_wait(tmp_path: Path, how: str) -> None:
    done = run(
        tmp_path,
        f"""
        if rank == 1:
            {how}
        work()
        """,
    )
    assert done.code == 1
    assert done.tracebacks == 1
    assert "waits for rank 1, which has left the world (it ended, or called shutdown)" in done.err
    assert re.search(r"\(\w+ #\d+ of world, called at .*:\d+\)", done.err)
    assert done.seconds < FIVE_SECONDS + START


def test_an_interrupt_is_one_line(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        if rank == 1:
            os.kill(os.getpid(), 2)
        work()
        """,
        n=2,
    )
    assert done.code == 130
    assert done.tracebacks == 0
    assert len(done.said) == 1
    assert done.said[0].endswith(" was interrupted; the job ends.")


def test_a_wait_that_is_in_vain_times_out(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        c.get_group().timeout = 0.5
        if rank == 0:
            c.all_reduce(np.ones(3, np.float32))
        time.sleep(30)
        """,
        n=2,
    )
    assert done.code == 1
    assert done.tracebacks == 1
    assert (
        "CollectiveTimeoutError: rank 0: all_reduce #0 of world did not end within 0.5 s (float32[3], "
        in done.err
    )
    assert "script.py:14): rank 1 is missing, with nothing issued at all. See that all of them " in done.err
    assert re.search(
        r"\nWhere the ranks are:\nrank 0:\n  File .*script.py\", line 14, in <module>\n", done.err
    )
    assert re.search(r"\nrank 1:\n  File .*script.py\", line 15, in <module>\n    time.sleep", done.err)


@pytest.mark.parametrize(
    "body",
    [
        "print('fine')",
        "c.all_reduce(1)\nprint('fine')",
        # one that ends long before the others, which do not need it
        "if rank:\n    time.sleep(1)\nprint('fine')",
        # what was sent arrives, also from a rank that has nothing more to do
        "if rank == 0:\n    c.isend(np.ones(1 << 20), 1)\nelse:\n    time.sleep(0.3)\n"
        "    assert c.recv((1 << 20,), float).all()\nprint('fine')",
        # later phases of what nobody waits for here, and somebody there
        "work = c.all_reduce(np.ones(1 << 20, np.float16), async_op=True)\nif rank:\n    "
        "work.wait()\nprint('fine')",
        "c.shutdown()\nprint('fine')",
        "c.shutdown()\nc.barrier()\nprint('fine')",
        # a sys.exit that somebody catches
        "try:\n    sys.exit(3)\nexcept SystemExit:\n    print('fine')",
        "print('fine')\nsys.exit(0)",
        # an operation to which no other rank comes, and which nobody waits for
        "if rank == 0:\n    c.irecv((3,), src=1)\nprint('fine')",
    ],
)
def test_a_normal_end(tmp_path: Path, body: str) -> None:
    done = run(tmp_path, body, n=2)
    assert done.err == ""
    assert done.code == 0
    assert done.out.split("fine") in (["", "\n", "\n"], ["", "", "\n\n"])


def test_a_launcher_of_another_mpi() -> None:
    """The first failure of many beginners: every process is told that it is alone."""
    body = "from shardwise import collectives\ncollectives.rank()"
    for names in (
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"},
        {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"},
        {"RANK": "0", "WORLD_SIZE": "4"},
    ):
        env = environment(**names)
        if "PMI_RANK" in names and is_mpich():
            continue  # these belong together; MPICH would look for its launcher
        if "OMPI_COMM_WORLD_RANK" in names and not is_mpich():
            continue
        done = subprocess.run(
            [sys.executable, "-c", body], env=env, capture_output=True, text=True, timeout=150
        )
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("shardwise.backend.errors.LaunchError: ")
        assert "shardwise run -n 4" in last


@pytest.mark.parametrize("missing", ["mpi4py", "library"])
def test_no_mpi(missing: str) -> None:
    block = "import sys\nsys.modules['mpi4py'] = None\n" if missing == "mpi4py" else ""
    done = subprocess.run(
        [sys.executable, "-c", block + "from shardwise import collectives\ncollectives.rank()"],
        env=environment(PMI_RANK="0", PMI_SIZE="2", MPI_LOCALRANKID="0", MPI4PY_LIBMPI="/nowhere/libmpi.so"),
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 1
    said = done.stderr[done.stderr.rindex("LaunchError: ") :]
    assert said.startswith("LaunchError: MPICH's mpiexec started this process as rank 0 of 2, but mpi4py")
    assert "pip install 'shardwise[mpich]'" in said
    assert ("is not installed" if missing == "mpi4py" else "finds no MPI library") in said


def is_mpich() -> bool:
    text = (
        "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI as m; print(m.Get_library_version())"
    )
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=150)
    return "MPICH" in done.stdout
