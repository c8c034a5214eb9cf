"""How jobs on two hosts end when something happens to them: soon, with the right verdict, leaving nothing."""

from __future__ import annotations

import re
import signal
import time
from typing import Any

import pytest

SOON = 80.0  # seconds, where five are promised: four ranks share the cores with other work

WORK = """
    import os, signal, sys, time
    import numpy as np
    import shardwise as sw

    RANK = sw.rank()
    sw.barrier()
    if RANK == 3:
        with open("moment", "w") as file:
            file.write(repr(time.time()))
        {deed}
    print("working", flush=True)
    while True:
        sw.all_reduce(np.ones(1000, np.float32))
        time.sleep(0.01)
"""


def test_one_raises(site: Any) -> None:
    site.write(WORK.format(deed="raise ValueError('boom')"))
    done = site.run().finish()
    assert done.code == 1
    assert done.seconds < SOON
    lines = done.err.splitlines()
    assert lines[0] == f"shardwise run: rank 3 of 4 failed on {site.names[1]}; the others were stopped:"
    assert lines[-1] == "ValueError: boom"
    assert done.err.count("Traceback") == 1


@pytest.mark.parametrize(
    ("deed", "code", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "shardwise run: rank 3 of 4 was killed by SIGKILL"),
        ("os._exit(3)", 3, "shardwise run: rank 3 of 4 exited with code 3"),
        ("sys.exit(3)", 3, "shardwise run: rank 3 of 4 exited with code 3"),
    ],
    ids=["SIGKILL", "_exit", "exit"],
)
def test_one_leaves(deed: str, code: int, said: str, site: Any) -> None:
    site.write(WORK.format(deed=deed))
    done = site.run().finish()
    assert done.code == code
    assert done.err.startswith(f"{said} on {site.names[1]}; the others were stopped")
    assert "Traceback" not in done.err
    assert done.seconds < SOON


def test_all_raise(site: Any) -> None:
    site.write("raise KeyError('all')")
    done = site.run().finish()
    assert done.code == 1
    assert done.err.splitlines()[0] == "shardwise run: ranks 0-3 of 4 failed alike:"
    assert done.err.count("Traceback") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher(number: signal.Signals, site: Any) -> None:
    site.write(WORK.format(deed="pass"))
    job = site.run()
    job.wait_for("working", 4)
    job.moment.unlink()
    job.process.send_signal(number)
    done = job.finish()
    assert done.code == 128 + number
    assert done.seconds < SOON
    what = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    assert done.err.startswith(f"shardwise run: {what}; stopping 4 ranks")
    assert "Traceback" not in done.err


def test_user_signals_reach_all(site: Any) -> None:
    site.write("""
        import signal, sys, time
        signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
        print("ready", flush=True)
        time.sleep(250)
    """)
    job = site.run()
    job.wait_for("ready", 4)
    job.process.send_signal(signal.SIGUSR1)
    done = job.finish()
    assert (done.code, done.err) == (0, "")


def test_a_time_out_shows_where_all_are(site: Any) -> None:
    site.write("""
        import os, time
        def wait():
            time.sleep(250)
        if os.environ["RANK"] != "1":
            wait()
    """)
    done = site.run("--timeout", 3).finish()
    assert done.code == 124
    assert done.err.startswith(
        "shardwise run: not finished after 3 s; still running: ranks 0,2-3 of 4\nranks 0,2-3:\n"
    )
    assert f'File "{site.script}", line 4 in wait' in done.err
    assert done.seconds - 3 < SOON + 5  # what starting takes


def test_a_launcher_that_is_killed(site: Any) -> None:
    site.write(WORK.format(deed="pass"))
    job = site.run()
    job.wait_for("working", 4)
    job.process.kill()
    job.finish()
    assert site.hosts.left(SOON) == []


@pytest.mark.parametrize("body", ["time.sleep(300)", "work()"], ids=["silent", "busy"])
def test_a_link_that_is_cut_for_good(body: str, site: Any) -> None:
    site.write(f"""
        import time
        import numpy as np
        import shardwise as sw

        def work():
            while True:
                sw.all_reduce(np.ones(1000, np.float32))
        sw.barrier()
        print("working", flush=True)
        {body}
    """)
    job = site.run()
    job.wait_for("working", 4)
    time.sleep(0.5)
    site.hosts.cut(1)
    done = job.finish()
    assert done.code not in (0, 124)
    assert done.seconds < 60
    assert re.match(r"shardwise run: rank(s 2-3| [23]) of 4 cannot be reached any more", done.err), done.err
    assert site.names[1] in done.err
    assert site.hosts.left(15) == []


def test_a_link_that_comes_back(site: Any) -> None:
    site.write("""
        import time
        import numpy as np
        import shardwise as sw
        sw.barrier()
        print("working", flush=True)
        until = time.monotonic() + 4
        while sw.all_reduce(np.array(time.monotonic() < until, np.int8), op="max"):
            time.sleep(0.01)
        print("done", flush=True)
    """)
    job = site.run()
    job.wait_for("working", 4)
    site.hosts.cut(1)
    time.sleep(2)
    site.hosts.mend(1)
    done = job.finish()
    assert (done.code, done.err) == (0, "")
    assert done.out.count("done") == 4


@pytest.mark.parametrize(
    "deed",
    ["raise ValueError('boom')", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"],
    ids=["raise", "exit", "SIGKILL"],
)
def test_under_plain_mpiexec(deed: str, site: Any) -> None:
    site.write(WORK.format(deed=deed))
    done = site.mpiexec().finish()
    assert done.code != 0
    assert done.seconds < SOON
    assert done.err.count("ValueError: boom\n") == ("boom" in deed)


def test_ctrl_c_under_plain_mpiexec(site: Any) -> None:
    site.write(WORK.format(deed="pass"))
    job = site.mpiexec()
    job.wait_for("working", 4)
    job.moment.unlink()
    job.process.send_signal(signal.SIGINT)
    done = job.finish()
    assert done.code != 0
    assert done.seconds < SOON
