"""A function on n ranks, from Python."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import shardwise as sw
from harness import calls
from harness.command import execute
from shardwise.backend.errors import CollectiveTimeoutError, LaunchError
from shardwise.launch import spawn

BOTH = pytest.mark.parametrize("transport", ["threads", "mpi"])


@BOTH
def test_results_come_back_in_rank_order(transport: str) -> None:
    got = spawn(calls.sum_over_ranks, (10,), nprocs=3, transport=transport)
    assert got == [(rank, 3, 33) for rank in range(3)]


@BOTH
def test_arrays_come_back_whole(transport: str) -> None:
    for rank, array in enumerate(spawn(calls.ramp, (4, "float32"), nprocs=2, transport=transport)):
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, np.arange(4, dtype=np.float32) + rank)


@BOTH
def test_one_rank(transport: str) -> None:
    assert spawn(calls.sum_over_ranks, (5,), nprocs=1, transport=transport) == [(0, 1, 5)]


@BOTH
def test_the_first_error_is_raised_as_itself(transport: str) -> None:
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError) as caught:
        spawn(calls.fail_on, (1,), nprocs=2, transport=transport)
    assert str(caught.value) == "on rank 1"
    assert time.monotonic() - start < 40  # and not the minute that the other rank would take
    assert any("raised by rank 1 of 2" in note for note in caught.value.__notes__)


def test_the_remote_traceback_is_a_note() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        spawn(calls.fail_on, (0,), nprocs=2, transport="mpi")
    (note,) = caught.value.__notes__
    assert f'File "{calls.__file__}"' in note
    assert note.endswith("ZeroDivisionError: on rank 0")


def test_an_error_that_cannot_travel_is_told_in_words() -> None:
    with pytest.raises(LaunchError, match=r"rank 0 of 1 failed with harness\.calls\.Stubborn: ab") as caught:
        spawn(calls.fail_stubbornly, nprocs=1, transport="mpi")
    assert "harness.calls.Stubborn: ab" in caught.value.__notes__[0]


def test_a_result_that_cannot_travel_says_so() -> None:
    with pytest.raises(LaunchError, match="the result of give_lambda, a function, cannot be sent back: "):
        spawn(calls.give_lambda, nprocs=1, transport="mpi")


def test_ranks_that_leave_are_an_error() -> None:
    with pytest.raises(LaunchError, match=r"^spawn of leave on 2 ranks: ranks 0-1 of 2 exited with code 3$"):
        spawn(calls.leave, (3,), nprocs=2, transport="mpi")
    with pytest.raises(LaunchError, match=r"^rank 0 ended without an error before leave returned"):
        spawn(calls.leave, (0,), nprocs=1, transport="mpi")
    with pytest.raises(LaunchError, match=r"rank 1 of 2 was killed by SIGKILL; the other rank was stopped"):
        spawn(calls.die_on, (1, int(signal.SIGKILL)), nprocs=2, transport="mpi")


def test_a_time_out_ends_processes(tmp_path: Path) -> None:
    with pytest.raises(CollectiveTimeoutError) as caught:
        spawn(calls.wait, (str(tmp_path), 60.0), nprocs=2, transport="mpi", timeout=10.0)
    message = str(caught.value)
    assert message.startswith(
        "spawn of wait on 2 ranks: not finished after 10 s; still running: ranks 0-1 of 2\n"
    )
    assert f'File "{calls.__file__}"' in message
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert len(pids) == 2
    assert not any(Path("/proc", str(pid)).exists() for pid in pids)


def test_a_time_out_cannot_end_threads_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(CollectiveTimeoutError) as caught:
        spawn(calls.wait, (str(tmp_path), 0.5), nprocs=2, timeout=0.1)
    assert str(caught.value) == (
        "spawn: 2 ranks had not finished wait after 0.1 s. They are threads, which cannot be ended from "
        "outside and go on in the background; transport='mpi' would end them"
    )
    time.sleep(0.6)  # they end here, not in the next test


def test_a_time_out_that_is_not_reached_changes_nothing() -> None:
    assert spawn(calls.sum_over_ranks, (1,), nprocs=2, timeout=30.0) == [(0, 2, 3), (1, 2, 3)]


def test_functions_without_a_name_are_refused_for_processes() -> None:
    def inner(rank: int) -> int:
        return rank

    for fn, what in ((lambda rank: rank, "a lambda"), (inner, "'inner', defined inside a function,")):
        with pytest.raises(LaunchError) as caught:
            spawn(fn, nprocs=2, transport="mpi")
        assert str(caught.value) == (
            f"spawn(transport='mpi') sends the function by name, so {what} cannot be found by other "
            "processes: define it at the top level of a module and pass what it closes over in args, or use "
            "transport='threads'"
        )
        assert spawn(fn, nprocs=2) == [0, 1]


def test_arguments_that_cannot_travel_are_named() -> None:
    with pytest.raises(LaunchError) as caught:
        spawn(calls.ramp, (lambda: 0, "float32"), nprocs=2, transport="mpi")
    message = str(caught.value)
    assert message.startswith("spawn(transport='mpi') cannot send 'ramp' and its args to other processes: ")
    assert message.endswith(". Pass what can be pickled, or use transport='threads'")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nprocs": 0, "transport": "mpi"}, "the number of ranks must be at least 1, got 0"),
        ({"nprocs": 0}, "run_threads: nprocs=0; wanted at least one rank."),
        ({"transport": "tcp"}, "spawn: transport must be 'threads' or 'mpi', got 'tcp'"),
        ({"timeout": 0.0}, "spawn: timeout must be a positive number of seconds, got 0.0"),
    ],
)
def test_bad_input(options: dict[str, object], message: str) -> None:
    with pytest.raises(LaunchError, match=f"^{re.escape(message)}$"):
        spawn(calls.ramp, (1, "float32"), **options)


def test_the_default_is_a_rank_per_core() -> None:
    assert len(sw.spawn(lambda rank: rank)) >= 1


SCRIPT = """
    import sys
    import numpy as np
    import shardwise as sw

    class Point:
        def __init__(self, x):
            self.x = x

    class Mine(Exception):
        pass

    def work(rank, point):
        print("hello from", rank)
        if point.x < 0:
            raise Mine("negative")
        return Point(point.x + rank + sw.world_size())

    {guard}
        got = sw.spawn(work, (Point(10),), nprocs=2, transport="mpi")
        print([type(each) is Point and each.x for each in got])
        try:
            sw.spawn(work, (Point(-1),), nprocs=2, transport="mpi")
        except Mine as error:
            print("Mine", error)
"""


def test_a_script_spawns_its_own_functions(script: Callable[[str], Path]) -> None:
    path = script(SCRIPT.format(guard='if __name__ == "__main__":'))
    done = execute([path], path.parent)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert sorted(lines[:2]) == ["[r0] hello from 0", "[r1] hello from 1"]
    assert lines[2] == "[12, 13]"
    assert lines[-1] == "Mine negative"


def test_a_module_run_with_m_spawns_its_own_functions(script: Callable[[str], Path]) -> None:
    path = script(SCRIPT.format(guard='if __name__ == "__main__":'))
    assert "[12, 13]" in execute(["-m", "script"], path.parent).out


def test_a_script_without_guard_is_told_to_have_one(script: Callable[[str], Path]) -> None:
    path = script(SCRIPT.format(guard="if True:"))
    done = execute([path], path.parent)
    assert done.code == 1
    assert "spawn was called while a rank imports the script that called it: put the call under" in done.err


def test_what_was_typed_cannot_be_sent(tmp_path: Path) -> None:
    typed = "import shardwise as sw\ndef f(rank): return rank\nsw.spawn(f, nprocs=2, transport='mpi')\n"
    done = execute(["-"], tmp_path, stdin=typed)
    assert done.code == 1
    assert done.err.rstrip().endswith(
        "LaunchError: spawn(transport='mpi') cannot send f: it was defined interactively, and other "
        "processes cannot import it from there. Put it into a file and import it, or use transport='threads'"
    )


@pytest.mark.mpi(min_size=2)
def test_ranks_cannot_spawn_processes() -> None:
    with pytest.raises(LaunchError, match=r"^this process is already rank \d of \d, started by "):
        spawn(calls.ramp, (1, "float32"), nprocs=2, transport="mpi")
    assert spawn(calls.sum_over_ranks, (1,), nprocs=2) == [(0, 2, 3), (1, 2, 3)]


def test_the_caller_may_have_replaced_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    spawn(calls.greet, nprocs=2, transport="mpi")
    captured = capsys.readouterr()
    assert sorted(captured.out.splitlines()) == ["[r0] hello", "[r1] hello"]
    assert sorted(captured.err.splitlines()) == ["[r0] quietly", "[r1] quietly"]
    assert sys.stdout.writable()
