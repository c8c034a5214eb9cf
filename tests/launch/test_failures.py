"""Jobs that do not end well: one verdict, the code of the root cause, in seconds, nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.command import Ended, all_gone, clean_environment, without_warning

Script = Callable[[str], Path]
Run = Callable[..., Ended]
FIVE_SECONDS = 5.0
START_SECONDS = 30.0  # what starting the job itself may take on a busy machine


def has_ended_in_time(seconds: float) -> bool:
    return seconds < FIVE_SECONDS + START_SECONDS


def test_one_rank_raises_while_others_wait_in_mpi(script: Script, run: Run) -> None:
    path = script("""
        from mpi4py import MPI

        def fail():
            raise ValueError("boom")

        if MPI.COMM_WORLD.rank == 1:
            fail()
        MPI.COMM_WORLD.Barrier()
    """)
    done = run("-n", 3, path)
    assert done.code == 1
    assert has_ended_in_time(done.seconds)
    lines = done.said.splitlines()
    assert lines[0] == "shardwise run: rank 1 of 3 failed; the others were stopped:"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[2] == f'  File "{path}", line 8, in <module>'
    assert lines[-1] == "ValueError: boom"
    assert "runpy" not in done.err
    assert "rank.py" not in done.err
    assert done.err.count("Traceback") == 1


def test_a_thread_that_raises_is_told_as_a_rank_that_does(script: Script, run: Run) -> None:
    path = script("""
        import threading, time
        import shardwise as sw

        def fail():
            raise ValueError("boom")

        sw.barrier()
        if sw.rank() == 1:
            threading.Thread(target=fail).start()
            time.sleep(60)
        sw.barrier()
    """)
    done = run("-n", 3, path)
    assert done.code == 1
    lines = done.said.splitlines()
    assert lines[0] == "shardwise run: rank 1 of 3 failed; the others were stopped:"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: boom"
    assert "MPI_Abort" not in done.err + done.out
    assert done.err.count("Traceback") == 1


def test_a_rank_that_was_asked_to_end_is_the_cause(script: Script, run: Run) -> None:
    """Not those that waited for it, though MPI's launcher ends ranks by SIGTERM too."""
    path = script("""
        import os, signal, time
        import shardwise as sw

        sw.barrier()
        if sw.rank() == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        while True:
            sw.barrier()
    """)
    done = run("-n", 3, path)
    assert done.said.splitlines()[0].startswith("shardwise run: rank 1 of 3 was killed by SIGTERM")
    assert "Traceback" not in done.err
    assert done.code == 128 + 15


def test_a_rank_that_was_stopped_hears_that_the_job_is_over(script: Script, run: Run, tmp_path: Path) -> None:
    path = script("""
        import os, signal, sys, time
        if os.environ["RANK"] == "1":
            signal.signal(signal.SIGTERM, lambda number, frame: (open("heard", "w").close(), sys.exit(0)))
            open("pid", "w").write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(60)
        while not os.path.exists("pid"):
            time.sleep(0.01)
        raise ValueError("boom")
    """)
    done = run("-n", 2, path)
    assert done.code == 1
    assert has_ended_in_time(done.seconds)
    assert (tmp_path / "heard").exists()
    assert all_gone([(tmp_path / "pid").read_text()])


def test_the_same_failure_of_all_ranks_is_told_once(script: Script, run: Run) -> None:
    path = script("""
        import os
        raise KeyError("rank " + os.environ["RANK"])
    """)
    done = run("-n", 3, path)
    assert done.code == 1
    assert done.said == (
        "shardwise run: ranks 0-2 of 3 failed alike. The error of rank 0:\n"
        "Traceback (most recent call last):\n"
        f'  File "{path}", line 3, in <module>\n'
        '    raise KeyError("rank " + os.environ["RANK"])\n'
        "KeyError: 'rank 0'\n"
    )


def test_other_failures_are_one_line_each(script: Script, run: Run) -> None:
    path = script("""
        import os, time
        if os.environ["RANK"] == "0":
            time.sleep(0.2)
            raise OSError("second")
        raise ValueError("first")
    """)
    done = run("-n", 2, path)
    assert done.code == 1
    assert done.said.splitlines()[0] == "shardwise run: rank 1 of 2 failed:"
    assert done.said.splitlines()[-2:] == [
        "ValueError: first",
        "shardwise run: then rank 0 failed with OSError: second",
    ]


def test_a_syntax_error_shows_the_line(script: Script, run: Run) -> None:
    path = script("x = (1,\n")
    done = run("-n", 2, path)
    assert done.code == 1
    assert f'  File "{path}", line 1\n' in done.said
    assert done.said.endswith("SyntaxError: '(' was never closed\n")


def test_chained_errors_and_notes_are_whole(script: Script, run: Run) -> None:
    path = script("""
        try:
            {}["key"]
        except KeyError as error:
            wrapped = RuntimeError("wrapped")
            wrapped.add_note("a note")
            raise wrapped from error
    """)
    done = run("-n", 1, path)
    plain = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=150, check=False
    )
    assert (done.code, done.err) == (plain.returncode, plain.stderr)


@pytest.mark.parametrize(
    ("leave", "code", "said"),
    [
        ("sys.exit(3)", 3, "shardwise run: rank 1 of 3 exited with code 3; the others were stopped\n"),
        ("os._exit(5)", 5, "shardwise run: rank 1 of 3 exited with code 5; the others were stopped\n"),
        (
            "sys.exit('not like this')",
            1,
            "shardwise run: rank 1 of 3 exited with code 1; the others were stopped:\nnot like this\n",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            137,
            "shardwise run: rank 1 of 3 was killed by SIGKILL; the others were stopped: somebody killed it, "
            "or the system ran out of memory (see the kernel's log)\n",
        ),
    ],
)
def test_one_rank_leaves(leave: str, code: int, said: str, script: Script, run: Run) -> None:
    path = script(f"""
        import os, signal, sys
        from mpi4py import MPI
        if MPI.COMM_WORLD.rank == 1:
            {leave}
        MPI.COMM_WORLD.Barrier()
    """)
    done = run("-n", 3, path)
    assert (done.code, done.said) == (code, said)
    assert has_ended_in_time(done.seconds)


def test_a_crash_in_compiled_code_shows_the_python_stack(script: Script, run: Run) -> None:
    path = script("""
        import ctypes, os, time

        def crash():
            ctypes.string_at(0)

        if os.environ["RANK"] == "0":
            crash()
        time.sleep(60)
    """)
    done = run("-n", 2, path)
    assert done.code == 128 + signal.SIGSEGV
    assert f'[r0]   File "{path}", line 5 in crash' in done.err
    assert "rank 0 of 2 was killed by SIGSEGV; the other rank was stopped" in done.err


def test_mpi_abort_gives_its_code(script: Script, run: Run) -> None:
    path = script("""
        from mpi4py import MPI
        if MPI.COMM_WORLD.rank == 1:
            MPI.COMM_WORLD.Abort(7)
        MPI.COMM_WORLD.Barrier()
    """)
    done = run("-n", 2, path)
    assert done.code == 7
    assert re.search(r"shardwise run: (the job was aborted by MPI|rank 1 of 2 exited with code 7)", done.err)


def test_a_thread_that_stays_does_not_keep_a_failed_job_alive(script: Script, run: Run) -> None:
    path = script("""
        import threading, time
        threading.Thread(target=time.sleep, args=(60,)).start()
        raise ValueError("boom")
    """)
    done = run("-n", 2, path)
    assert done.code == 1
    assert done.err.count("ValueError: boom\n") == 1
    assert has_ended_in_time(done.seconds)


def test_time_out_names_those_still_running_and_where(script: Script, run: Run) -> None:
    path = script("""
        import os, time

        def wait():
            time.sleep(60)

        if os.environ["RANK"] != "1":
            wait()
    """)
    done = run("-n", 3, "--timeout", 1.5, path)
    assert done.code == 124
    assert done.said.startswith(
        "shardwise run: not finished after 1.5 s; still running: ranks 0,2 of 3\nranks 0,2:\n"
    )
    assert f'File "{path}", line 5 in wait' in done.said
    assert has_ended_in_time(done.seconds - 1.5)


class Job:
    """A job that runs, and the processes of its ranks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def wait_for(self, pattern: str, times: int) -> list[str]:
        """Read until `times` lines of stdout match; returns what the groups caught."""
        assert self.process.stdout is not None
        found: list[str] = []
        while len(found) < times:
            line = self.process.stdout.readline()
            assert line, "".join(self.lines)
            self.lines.append(line)
            if match := re.search(pattern, line):
                found.append(match[1])
        return found

    def finish(self) -> tuple[int, str, float]:
        """Exit code, stderr without the warning about shared cores, seconds from now."""
        start = time.monotonic()
        out, err = self.process.communicate(timeout=150)
        self.lines.append(out)
        return self.process.returncode, without_warning(err), time.monotonic() - start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts jobs, and ends those that a failed test leaves."""
    jobs: list[Job] = []

    def begin(*arguments: object) -> Job:
        command = [sys.executable, "-m", "shardwise", "run", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            text=True,
            cwd=tmp_path,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        jobs.append(Job(process))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.process.kill()
        job.process.communicate()


WAIT = """
    import os, signal, sys, time
    print("pid", os.getpid(), flush=True)
    print("pid", os.getppid(), "above", flush=True)
    {before}
    try:
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "first"),
    [
        (signal.SIGINT, "shardwise run: interrupted; stopping 2 ranks (Ctrl-C again to kill at once)\n"),
        (signal.SIGTERM, "shardwise run: stopped by SIGTERM; stopping 2 ranks\n"),
    ],
)
def test_signals_end_the_job_with_one_line(
    number: signal.Signals, first: str, script: Script, start: Callable[..., Job]
) -> None:
    job = start("-n", 2, script(WAIT.format(before="")))
    pids = job.wait_for(r"pid (\d+)", 4)
    job.process.send_signal(number)
    code, said, seconds = job.finish()
    assert (code, said) == (128 + number, first)
    assert has_ended_in_time(seconds)
    assert all_gone(pids)
    # Ctrl-C is an exception in Python, which runs what cleans up; SIGTERM is not.
    assert "".join(job.lines).count("cleaned up") == (2 if number == signal.SIGINT else 0)


def test_ranks_that_ignore_signals_are_killed_after_the_grace(
    script: Script, start: Callable[..., Job]
) -> None:
    job = start(
        "-n", 2, "--grace", 0.5, script(WAIT.format(before="signal.signal(signal.SIGINT, signal.SIG_IGN)"))
    )
    pids = job.wait_for(r"pid (\d+)", 4)
    time.sleep(0.2)
    job.process.send_signal(signal.SIGINT)
    code, said, seconds = job.finish()
    assert code == 130
    assert said.splitlines()[1:] == [
        "shardwise run: ranks 0-1 did not stop within 0.5 s, so they were killed"
    ]
    assert has_ended_in_time(seconds)
    assert all_gone(pids)


def test_a_second_interrupt_does_not_wait(script: Script, start: Callable[..., Job]) -> None:
    job = start(
        "-n", 2, "--grace", 60, script(WAIT.format(before="signal.signal(signal.SIGINT, signal.SIG_IGN)"))
    )
    pids = job.wait_for(r"pid (\d+)", 4)
    time.sleep(0.2)
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    job.process.send_signal(signal.SIGINT)
    code, said, seconds = job.finish()
    assert (code, len(said.splitlines())) == (130, 1)
    assert has_ended_in_time(seconds)
    assert all_gone(pids)


def test_user_signals_are_passed_on(script: Script, start: Callable[..., Job]) -> None:
    handler = "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0)); print('pid 1', flush=True)"
    job = start("-n", 2, script(WAIT.format(before=handler)))
    job.wait_for(r"pid (\d+)", 6)
    job.process.send_signal(signal.SIGUSR1)
    assert job.finish()[:2] == (0, "")


@pytest.mark.parametrize(
    "before", ["", "from mpi4py import MPI; MPI.COMM_WORLD.recv(source=1 - MPI.COMM_WORLD.rank)"]
)
def test_a_killed_launcher_leaves_nothing(
    before: str, script: Script, start: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other jobs of this machine come and go in its own; the path of a socket has to be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        leave_nothing(before, script, start, Path(folder))


def leave_nothing(before: str, script: Script, start: Callable[..., Job], folder: Path) -> None:
    job = start("-n", 2, script(WAIT.format(before=before)))
    pids = job.wait_for(r"pid (\d+)", 4)
    assert list(folder.glob("shardwise-*"))
    job.process.kill()
    job.finish()
    assert all_gone(pids)
    assert not list(folder.glob("shardwise-*"))


def test_a_killed_supervisor_takes_its_rank_and_the_job_along(
    script: Script, start: Callable[..., Job]
) -> None:
    job = start("-n", 2, script(WAIT.format(before="")))
    supervisors = job.wait_for(r"pid (\d+) above", 2)
    os.kill(int(supervisors[0]), signal.SIGKILL)
    code, said, seconds = job.finish()
    assert code == 137
    assert re.match(r"shardwise run: rank \d of 2 vanished without a word, as if killed by SIGKILL", said)
    assert has_ended_in_time(seconds)
    assert all_gone(re.findall(r"pid (\d+)", "".join(job.lines)))


@pytest.mark.parametrize(
    "end", ["raise ValueError('boom')", "time.sleep(60)"], ids=["fails", "is interrupted"]
)
def test_what_ranks_started_ends_with_a_job_that(end: str, script: Script, start: Callable[..., Job]) -> None:
    path = script(f"""
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print("pid", child.pid, flush=True)
        time.sleep(0.5)
        {end}
    """)
    job = start("-n", 2, path)
    pids = job.wait_for(r"pid (\d+)", 2)
    if "sleep" in end:
        job.process.send_signal(signal.SIGINT)
    code, _, seconds = job.finish()
    assert code == (130 if "sleep" in end else 1)
    assert has_ended_in_time(seconds)
    assert all_gone(pids)
