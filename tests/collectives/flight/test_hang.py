"""Jobs of processes that hang: the verdict names who is missing, where, and what they do instead."""

from __future__ import annotations

import json
import re
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

LIMIT = 90.0  # seconds: a time-out of one, two for the answers, and what a busy machine takes to compile

HEAD = """
import os, re, signal, time
import numpy as np
from shardwise import collectives as c, errors
world, rank = c.get_world(), c.rank()
c.barrier()  # the first one makes the channel, and may compile
world.timeout = world.everyone.timeout = 1.0

def elsewhere():
    time.sleep(120)

"""
TAIL = """
c.all_reduce(np.ones((2, 2), np.float32))
elsewhere()
"""
ADVICE = (
    " See that all of them call it, in the same order (SHARDWISE_DEBUG=1 tells where they part); or give it "
    "more time, by timeout= of wait or of the group."
)


def run(tmp_path: Path, body: str, n: int = 3, tail: str = TAIL, **environ: str) -> Ended:
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(body) + tail)
    command = mpi_command(find_mpi(), n, (sys.executable, str(script)), find_cores().count)
    start = time.monotonic()
    with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
        done = subprocess.run(
            command.argv,
            env={**clean_environment(OMP_NUM_THREADS="1", **environ), **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            timeout=150,
            check=False,
        )
    texts = [(tmp_path / name).read_text(errors="replace") for name in ("out", "err")]
    return Ended(
        done.returncode, texts[0], texts[1].replace(f"{script}", "script.py"), time.monotonic() - start
    )


def verdict(done: Ended) -> str:
    """The one verdict of the job, without its first words: who waits, and in what."""
    assert done.code == 1, done.err
    assert done.seconds < LIMIT
    assert done.err.count("Traceback (most recent call last)") == 1
    assert done.err.count("did not end within") == 1
    assert len(re.findall(r"^shardwise: ", done.err, re.MULTILINE)) == 1
    found = re.search(
        r"CollectiveTimeoutError: rank [012]: all_reduce #1 of world did not end within 1 s "
        r"\(float32\[2, 2\], called at script.py:\d+\): (.*)\n",
        done.err,
    )
    assert found is not None, done.err
    return re.sub(r"\d+\.\d s", "S s", found[1])


def test_one_never_comes(tmp_path: Path) -> None:
    done = run(tmp_path, "if rank == 1: elsewhere()")
    assert verdict(done) == (
        "rank 1 is missing: the last operation, barrier #0 of world, called at script.py:6, ended S s ago."
        + ADVICE
    )
    assert re.search(
        r"\nWhere the ranks are:\n"
        r'ranks 0,2:\n  File "script.py", line 13, in <module>\n    c.all_reduce\(np.ones\(.*\n'
        r'rank 1:\n  File "script.py", line 12, in <module>\n    if rank == 1: elsewhere\(\)\n'
        r'  File "script.py", line 10, in elsewhere\n    time.sleep\(120\)\n',
        done.err,
    )


def test_one_is_in_another_collective(tmp_path: Path) -> None:
    done = run(tmp_path, "if rank == 1: c.all_gather(np.ones(3), c.new_group([1, 2], timeout=30))")
    assert verdict(done) == (
        "rank 1 is missing: since S s in all_gather #0 of ranks 1-2#1, called at script.py:12." + ADVICE
    )


def test_one_is_stopped(tmp_path: Path) -> None:
    done = run(tmp_path, "if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)")
    assert verdict(done) == "rank 1 is missing: silent since S s, stopped by a signal." + ADVICE


def test_compiled_code_holds_the_interpreter_of_one(tmp_path: Path) -> None:
    done = run(tmp_path, "def compiled(): re.match('(a+)+$', 60 * 'a' + 'b')\nif rank == 1: compiled()")
    assert verdict(done) == (
        "rank 1 is missing: silent since S s, with compiled code that holds the interpreter." + ADVICE
    )
    assert re.search(
        r'\nrank 1:\n.* in match\n  File "script.py", line 12 in compiled\n  File "script.py", line 13 in <m',
        done.err,
    )


def test_a_message_that_nobody_sends(tmp_path: Path) -> None:
    done = run(tmp_path, "if rank == 0: c.recv((3,), src=2)\nelsewhere()")
    assert done.code == 1
    assert re.search(
        r"CollectiveTimeoutError: rank 0: recv #0 of 2 -> 0 did not end within 1 s \(float32\[3\], called at "
        r"script.py:12\): rank 2 is missing: the last operation, barrier #0 of world, ",
        done.err,
    )


def test_a_time_of_the_users_names_them_too(tmp_path: Path) -> None:
    body = """
        if rank == 1:
            time.sleep(3)
        try:
            work = c.all_reduce(np.ones((2, 2), np.float32), async_op=True)
            work.wait(timeout=0.3)
        except errors.CollectiveTimeoutError as error:
            print(error, flush=True)
        work.wait(30)
    """
    done = run(tmp_path, body, n=2, tail="")
    assert (done.code, done.err) == (0, "")
    assert "did not end within 0.3 s (float32[2, 2], called at " in done.out
    assert "): rank 1 is missing: the last operation, barrier #0 of world, " in done.out
    assert "Where the ranks are" not in done.out


def test_what_nobody_waits_for_is_told_of_once(tmp_path: Path) -> None:
    body = """
        if rank == 1:
            time.sleep(5)
        work = c.all_reduce(np.ones(3), async_op=True)
        if rank == 0:
            time.sleep(4)
        work.wait(30)
    """
    done = run(tmp_path, body, n=2, tail="")
    assert done.code == 0
    assert (
        done.err.count("nobody waits for it, but rank 0: all_reduce #1 of world did not end within 1 s") == 1
    )
    assert "): rank 1 is missing: the last operation, barrier #0 of world, called at script.py:6" in done.err


def test_a_verdict_leaves_the_flight_records(tmp_path: Path) -> None:
    done = run(tmp_path, "if rank == 1: elsewhere()", SHARDWISE_FLIGHT_DIR=str(tmp_path / "flight"))
    assert done.code == 1
    for rank in range(3):
        kept = json.loads((tmp_path / "flight" / f"flight-{rank}.json").read_text())
        assert (kept["rank"], kept["world_size"]) == (rank, 3)
        ops = [(each["op"], each["seq"], each["group"], each["end"] is None) for each in kept["operations"]]
        wanted = [("barrier", 0, "world", False), ("all_reduce", 1, "world", True)]
        assert ops == (wanted[:1] if rank == 1 else wanted)
        assert abs(kept["operations"][0]["start"] - time.time()) < 100.0


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("status", [0, 3])
def test_os_exit_is_an_end_like_any_other(tmp_path: Path, status: int, who: int) -> None:
    done = run(tmp_path, f"if rank == {who}: os._exit({status})\ntime.sleep(0.5)")
    assert done.seconds < LIMIT
    said = re.findall(r"^shardwise: rank (\d) of 3 on \S+ (.*)", done.err, re.MULTILINE)
    if status:
        assert (done.code, said) == (3, [(str(who), "called os._exit(3); the job ends.")])
    else:
        assert done.code == 1
        ((speaker, deed),) = said
        assert speaker != str(who)
        assert deed == "raised; the job ends:"
        assert verdict(done) == f"rank {who} has left the world S s ago, without it." + ADVICE


def test_all_may_end_by_os_exit(tmp_path: Path) -> None:
    done = run(tmp_path, "time.sleep(0.3 * rank)\nprint('fine', flush=True)\nos._exit(0)", tail="")
    assert (done.code, done.out.split(), done.err) == (0, ["fine"] * 3, "")


def test_the_last_may_be_late_to_end_by_os_exit(tmp_path: Path) -> None:
    """MPICH's launcher kills who is left when one ends without having told it, as MPI_Finalize does not."""
    body = """
        if rank == 1:
            finalize = world.transport.finalize
            world.transport.finalize = lambda: (finalize(), time.sleep(1.0))
        os._exit(0)
    """
    done = run(tmp_path, body, tail="")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_rank_that_waits_for_nobody_ends_when_another_has_died(tmp_path: Path) -> None:
    """Under a launcher that does not end the others, as between hosts."""
    body = """
        from shardwise.collectives.ending import abort
        abort._MOURNING = 0.3
        if rank == 1:
            c.get_world().control.close()
        elsewhere()
    """
    done = run(tmp_path, body, tail="")
    assert done.code == 1
    assert done.seconds < LIMIT
    said = re.findall(r"^shardwise: (.*)", done.err, re.MULTILINE)
    assert len(said) == 1
    assert re.fullmatch(
        r"rank [02] of 3 on \S+ was stopped: rank 1 on \S+ has died: its process ended without a word\.",
        said[0],
    )


def test_a_wait_raises_at_once_when_a_rank_has_died(tmp_path: Path) -> None:
    body = """
        if rank == 1:
            time.sleep(0.3)
            c.get_world().control.close()
            elsewhere()
    """
    done = run(tmp_path, body)
    assert done.code == 1
    said = re.findall(r"^shardwise: (.*)", done.err, re.MULTILINE)
    assert len(said) == 1
    assert re.fullmatch(
        r"rank ([02]) of 3 on \S+ was stopped: rank \1 stopped waiting: rank 1 on \S+ has died: its process "
        r"ended without a word\. \(all_reduce #1 of world, called at script.py:18\)",
        said[0],
    )
