"""Jobs that are started again when they fail, and those that are not."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command import Ended
from shardwise.launch.failure import Ending, Verdict
from shardwise.launch.series import why_not_again

Script = Callable[[str], Path]
Run = Callable[..., Ended]

COUNT = """
    import os, sys, time
    count = int(os.environ["SHARDWISE_RESTART_COUNT"])
    with open(f"run {os.environ['RANK']} {count}", "w") as file:
        file.write(os.environ["SHARDWISE_RUN_ID"])
"""


def attempts(folder: Path) -> list[tuple[str, ...]]:
    return sorted(tuple(path.name.split()[1:]) for path in folder.glob("run *"))


def test_a_job_that_succeeds_the_second_time(script: Script, run: Run, tmp_path: Path) -> None:
    path = script(COUNT + "    if count == 0 and os.environ['RANK'] == '1': os._exit(9)\n    print('done')\n")
    done = run("-n", 2, "--restarts", 2, path)
    assert done.code == 0
    assert done.lines_of(0)[-1] == done.lines_of(1)[-1] == "done"
    assert done.said.splitlines()[-1] == (
        "shardwise run: the job failed with exit code 9; it is started again in 1 s (restart 1 of 2)"
    )
    assert ("0", "1") in attempts(tmp_path)
    assert ("0", "2") not in attempts(tmp_path)
    runs = {path.read_text() for path in tmp_path.glob("run 1 *")}
    assert len(runs) == 2


def test_a_job_that_fails_each_time(script: Script, run: Run, tmp_path: Path) -> None:
    path = script(COUNT + "    if os.environ['RANK'] == '1': raise ValueError('again')\n    time.sleep(30)\n")
    done = run("-n", 2, "--restarts", 1, path)
    assert done.code == 1
    assert done.said.count("ValueError: again") == 2
    assert done.said.splitlines()[-1] == (
        "shardwise run: the job is not started again: it has been once already"
    )
    assert attempts(tmp_path) == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]


def failed(name: str, *bases: str) -> Ending:
    return Ending(0, 1.0, 1, "failed", type=name, bases=(name, *bases))


ONE, ALL = (0,), (0, 1)


@pytest.mark.parametrize(
    ("verdict", "seconds", "reason"),
    [
        (Verdict(1, [], failed("ValueError"), ONE), 1.0, None),
        (Verdict(1, [], failed("ValueError"), ALL), 6.0, None),
        (Verdict(137, [], Ending(0, 1.0, 137, "signal"), ALL), 1.0, None),
        (Verdict(1, [], failed("ValueError"), ALL), 1.0, "all of it failed alike within 5 s of its start"),
        (Verdict(1, [], failed("ModuleNotFoundError", "ImportError"), ONE), 9.0,
         "ModuleNotFoundError would be met again"),
        (Verdict(1, [], failed("IndentationError", "SyntaxError"), ONE), 9.0,
         "IndentationError would be met again"),
        (Verdict(2, [], Ending(0, 1.0, 2, "exiting"), ONE), 9.0,
         "exit code 2 means that its arguments are wrong"),
        (Verdict(75, [], Ending(0, 1.0, 75, "exiting"), ALL), 9.0, "exit code 75 asks the batch system to"),
        (Verdict(124, [], timed_out=True), 9.0, "it took longer than --timeout allows"),
        (Verdict(1, [], started=False), 9.0, "its ranks could not be started"),
        (Verdict(1, []), 9.0, None),
    ],
)  # fmt: skip
def test_what_is_not_started_again(verdict: Verdict, seconds: float, reason: str | None) -> None:
    assert why_not_again(verdict, 2, seconds) == reason


def test_import_errors_are_told_once(script: Script, run: Run, tmp_path: Path) -> None:
    done = run("-n", 2, "--restarts", 3, script(COUNT + "    import absent_module\n"))
    assert done.code == 1
    assert done.said.splitlines()[-1] == (
        "shardwise run: the job is not started again: ModuleNotFoundError would be met again"
    )
    assert attempts(tmp_path) == [("0", "0"), ("1", "0")]


def test_an_interrupt_ends_the_series(script: Script, run: Run, tmp_path: Path) -> None:
    path = script(COUNT + "    import signal; os.kill(os.getppid(), 0)\n    time.sleep(60)\n")
    command = "import os, signal, subprocess, sys, time\n" + (
        f"job = subprocess.Popen([sys.executable, '-m', 'shardwise', 'run', '-n', '2', '--restarts', '3', "
        f"{str(path)!r}])\n"
        "while not os.path.exists('run 1 0'): time.sleep(0.05)\n"
        "time.sleep(0.3); job.send_signal(signal.SIGINT); sys.exit(job.wait())\n"
    )
    (tmp_path / "driver.py").write_text(command)
    done = run(tmp_path / "driver.py")
    assert done.code == 128 + signal.SIGINT
    assert "started again" not in done.err
    assert attempts(tmp_path) == [("0", "0"), ("1", "0")]


def test_a_preempted_job_ends_at_one_step_and_asks_for_more(script: Script, run: Run, tmp_path: Path) -> None:
    path = script("""
        import os, signal, sys, time
        import shardwise as sw

        sw.watch_preemption()
        for step in range(1000):
            if step == 3 and sw.rank() == 0:
                os.kill(int(open("launcher").read()), signal.SIGUSR1)
            time.sleep(0.02)
            if sw.preempted():
                open(f"stopped {sw.rank()} {step}", "w").close()
                sys.exit(sw.collectives.REQUEUE)
    """)
    driver = tmp_path / "driver.py"
    driver.write_text(
        "import os, sys\n"
        "open('launcher', 'w').write(str(os.getpid()))\n"
        f"words = ['-m', 'shardwise', 'run', '-n', '2', '--restarts', '2', {str(path)!r}]\n"
        "os.execv(sys.executable, [sys.executable, *words])\n"
    )
    done = run("-n", 1, driver)
    assert done.code == 75
    steps = [name.name.split()[2] for name in tmp_path.glob("stopped *")]
    assert len(steps) == 2
    assert len(set(steps)) == 1
    assert done.said.splitlines()[-1] == (
        "shardwise run: the job is not started again: exit code 75 asks the batch system to"
    )
