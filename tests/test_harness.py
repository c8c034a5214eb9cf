"""The harness that runs multi-rank tests, on small suites of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.command import Ended, execute
from harness.merge import rank_list
from shardwise.launch.command import RANK_VARIABLES, mpi_command
from shardwise.launch.mpi import find_mpi

TESTS = Path(__file__).parent

INI = f"""\
[pytest]
pythonpath = {TESTS}
addopts = --import-mode=importlib -p no:cacheprovider
filterwarnings = error
timeout = 120
timeout_method = thread
"""


@dataclass(frozen=True)
class Suite:
    """What became of an inner suite: outcome and text of each test, in order."""

    ended: Ended
    outcomes: dict[str, str]
    texts: dict[str, str]


@pytest.fixture
def inner(tmp_path: Path) -> Callable[..., Suite]:
    """Runs plain pytest on a suite in a folder of its own."""

    def run(source: str, *arguments: str, **environment: str) -> Suite:
        (tmp_path / "pytest.ini").write_text(INI)
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["harness.plugin"]\n')
        (tmp_path / "test_inner.py").write_text("import os, time\nimport pytest\n" + textwrap.dedent(source))
        report = tmp_path / "report.xml"
        options = ["--mpi-sizes=1,2", f"--junitxml={report}", *arguments]
        ended = execute(["-m", "pytest", *options], tmp_path, **environment)
        outcomes, texts = {}, {}
        for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
            kinds = [part for part in case if part.tag in ("failure", "error", "skipped")]
            outcomes[case.attrib["name"]] = kinds[0].tag if kinds else "passed"
            texts[case.attrib["name"]] = "".join(
                f"{part.get('message', '')}\n{part.text or ''}" for part in case
            )
        return Suite(ended, outcomes, texts)

    return run


def ranks_left(folder: Path) -> list[str]:
    """Command lines of ranks that still run for this folder."""
    left = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "harness.rank" in command and str(folder) in command:
            left.append(command)
    return left


def test_outcomes_of_ranks_become_one(inner: Callable[..., Suite]) -> None:
    suite = inner(
        """
        from mpi4py import MPI

        RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
        mpi = pytest.mark.mpi
        mpi2 = pytest.mark.mpi(min_size=2)

        def test_serial():
            assert SIZE == 1

        @mpi
        @pytest.mark.parametrize("kind", ["mpi", "x"])
        def test_any(kind, tmp_path):
            assert MPI.COMM_WORLD.allreduce(1) == SIZE
            assert MPI.COMM_WORLD.bcast(tmp_path) != tmp_path or RANK == 0

        @mpi2
        def test_on_one():
            print("printed by", RANK)
            assert RANK != 1, "only here"

        @mpi2
        def test_on_all():
            print("the same")
            assert SIZE == 3

        @mpi2
        def test_skip():
            pytest.skip("not today")

        @mpi2
        def test_skip_on_one():
            if RANK == 1:
                pytest.skip("not here")

        @mpi2
        @pytest.mark.xfail(strict=True)
        def test_expected_on_one():
            assert RANK == 0

        @mpi2
        @pytest.mark.xfail(strict=True)
        def test_expected_in_vain():
            pass

        @pytest.fixture
        def broken():
            assert RANK == 0, "in setup"

        @mpi2
        def test_setup(broken):
            pass

        @mpi2
        def test_time():
            time.sleep(0.2 * RANK)
        """,
        "-rA",
    )
    assert suite.outcomes == {
        "test_serial": "passed",
        "test_any[mpi-n=1]": "passed",
        "test_any[x-n=1]": "passed",
        "test_any[mpi-n=2]": "passed",
        "test_any[x-n=2]": "passed",
        "test_on_one[n=2]": "failure",
        "test_on_all[n=2]": "failure",
        "test_skip[n=2]": "skipped",
        "test_skip_on_one[n=2]": "failure",
        "test_expected_on_one[n=2]": "skipped",
        "test_expected_in_vain[n=2]": "failure",
        "test_setup[n=2]": "error",
        "test_time[n=2]": "passed",
    }
    assert suite.ended.code == 1
    assert "4 failed, 6 passed, 1 skipped, 1 xfailed, 1 error" in suite.ended.out
    on_one = suite.texts["test_on_one[n=2]"]
    assert on_one.startswith("rank 1: AssertionError: only here")
    assert "--- rank 1 ---" in on_one
    assert "--- rank 0: passed ---" in on_one
    assert "Captured stdout call (rank 1)" in suite.ended.out
    assert suite.texts["test_on_all[n=2]"].count("assert 2 == 3") == 2  # the summary, and the code once
    assert "Captured stdout call (ranks 0-1)" in suite.ended.out
    assert suite.texts["test_skip_on_one[n=2]"].startswith("ranks disagree: rank 0: passed; rank 1: skipped")
    assert "--- rank 1 ---" in suite.texts["test_setup[n=2]"]


def test_ranks_that_hang_die_or_differ_cost_only_their_test(
    inner: Callable[..., Suite], tmp_path: Path
) -> None:
    suite = inner(
        """
        def world():
            from mpi4py import MPI
            return MPI.COMM_WORLD

        pytestmark = pytest.mark.mpi(min_size=2)

        @pytest.mark.timeout(1.5)
        def test_hang():
            if world().rank == 0:
                world().Barrier()

        def test_raise_before_barrier():
            if world().rank == 1:
                raise ValueError("boom")
            world().Barrier()

        def test_killed():
            if world().rank == 1:
                os.kill(os.getpid(), 9)
            world().Barrier()

        @pytest.mark.timeout(1.5)
        def test_wrong_order():
            if world().rank == 1:
                world().recv(source=0, tag=1)
                world().Barrier()
            else:
                world().Barrier()
                world().send(None, dest=1, tag=1)

        def test_after_all_that():
            assert world().allreduce(1) == 2
        """,
    )
    names = ["hang", "raise_before_barrier", "killed", "wrong_order"]
    assert suite.outcomes == {f"test_{name}[n=2]": "failure" for name in names} | {
        "test_after_all_that[n=2]": "passed"
    }
    hang, raised, killed, order = (suite.texts[f"test_{name}[n=2]"] for name in names)
    assert hang.startswith("rank 0 did not come back in 2 s; rank 1 passed")
    assert 'test_inner.py", line 13 in test_hang' in hang
    assert "_pytest" not in hang
    assert raised.startswith("rank 1 failed; rank 0 did not come back")
    assert "ValueError: boom" in raised
    assert "line 18 in test_raise_before_barrier" in raised
    assert "died (rank 1 first)" in killed or killed.startswith("rank 1 died")
    assert order.startswith("rank")
    assert "in test_wrong_order" in order
    assert ranks_left(tmp_path) == []


def test_restarts_are_counted(inner: Callable[..., Suite]) -> None:
    suite = inner(
        """
        @pytest.mark.mpi(min_size=2)
        @pytest.mark.parametrize("i", range(4))
        def test_killed(i):
            os.kill(os.getpid(), 9)
        """,
        "--mpi-restarts=1",
    )
    assert set(suite.outcomes.values()) == {"failure"}
    last = suite.texts["test_killed[3-n=2]"]
    assert "not run: the world of 2 had to be restarted more than 1 times (--mpi-restarts)" in last


def test_ranks_must_collect_the_same(inner: Callable[..., Suite]) -> None:
    names = sorted(set(RANK_VARIABLES.values()))
    suite = inner(
        f"""
        RANK = next((os.environ[name] for name in {names!r} if name in os.environ), "0")

        @pytest.mark.mpi(min_size=2)
        @pytest.mark.parametrize("i", [RANK])
        def test_by_rank(i):
            pass
        """,
    )
    (text,) = suite.texts.values()
    assert "rank 1 and rank 0 collected different tests: test_inner.py::test_by_rank[0], test_inner" in text


def test_selection_works_as_ever(inner: Callable[..., Suite], tmp_path: Path) -> None:
    source = """
        @pytest.mark.mpi
        def test_a():
            assert False

        @pytest.mark.mpi
        def test_b():
            pass

        @pytest.mark.mpi(min_size=3)
        def test_large():
            pass
    """
    for arguments, names in {
        ("-k", "b"): ["test_b[n=1]", "test_b[n=2]"],
        ("test_inner.py::test_a",): ["test_a[n=1]", "test_a[n=2]"],
        ("test_inner.py::test_b[n=2]",): ["test_b[n=2]"],
        ("-m", "not mpi"): [],
    }.items():
        listing = inner(source, "--collect-only", "-q", *arguments).ended.out.splitlines()
        assert [line.partition("::")[2] for line in listing if "::" in line] == names
    assert list(inner(source, "-x").outcomes) == ["test_a[n=1]"]
    assert ranks_left(tmp_path) == []


def test_a_world_that_does_not_end_is_reported(inner: Callable[..., Suite]) -> None:
    suite = inner(
        """
        import atexit

        @pytest.mark.mpi(min_size=2)
        def test_leaves_something():
            atexit.register(os._exit, 5)
        """,
    )
    assert suite.ended.code == 1
    assert "the world of 2 ended with exit code 5" in suite.ended.out


def test_without_mpi_multi_rank_tests_fail(inner: Callable[..., Suite], tmp_path: Path) -> None:
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent" / "mpi4py.py").write_text("raise RuntimeError('cannot load MPI library')")
    suite = inner(
        """
        def test_serial():
            pass

        @pytest.mark.mpi
        def test_any():
            pass
        """,
        PYTHONPATH=str(tmp_path / "absent"),
    )
    assert suite.outcomes == {"test_serial": "passed", "test_any[n=1]": "failure", "test_any[n=2]": "failure"}
    assert "mpi4py is installed but finds no MPI library: pip install" in suite.texts["test_any[n=1]"]


def test_bad_marks_and_options_are_errors(inner: Callable[..., Suite]) -> None:
    suite = inner("@pytest.mark.mpi(2)\ndef test_any():\n    pass\n")
    assert suite.ended.code == 2
    assert "pytest.mark.mpi takes no positional arguments, got (2,); write pytest.mark.mpi(min_size=2)" in (
        suite.ended.out
    )
    suite = inner("", "--mpi-sizes=0,2")
    assert suite.ended.code == 4
    assert "--mpi-sizes takes numbers of ranks such as 1,2,4; got '0,2'" in suite.ended.err


def test_under_a_launcher_only_as_a_rank(inner: Callable[..., Suite], tmp_path: Path) -> None:
    suite = inner(
        """
        @pytest.mark.mpi(min_size=2)
        def test_any():
            from mpi4py import MPI
            assert MPI.COMM_WORLD.size == 2
        """,
        PMI_RANK="0",
    )
    assert suite.ended.code == 4
    assert "pytest runs under an MPI launcher (PMI_RANK is set)" in suite.ended.err
    program = (sys.executable, "-m", "pytest", "--only-mpi", "-q")
    command = mpi_command(find_mpi(), 2, program, cores=1)
    by_hand = subprocess.run(
        command.argv,
        env={**os.environ, **command.environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert by_hand.returncode == 0
    assert by_hand.stdout.count("1 passed") == 2


@pytest.mark.parametrize(
    ("ranks", "text"), [([4], "rank 4"), ([1, 0], "ranks 0-1"), ([5, 0, 2, 1, 7], "ranks 0-2,5,7")]
)
def test_ranks_are_written_briefly(ranks: list[int], text: str) -> None:
    assert rank_list(ranks) == text
