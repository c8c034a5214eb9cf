"""Each way to break a job ends it in seconds, with one verdict that names the rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.command import Ended, execute
from house.floors import ROOT

SCRIPT = ROOT / "examples" / "break_it.py"
START = 90.0  # what starting three ranks may take on a busy machine


@pytest.fixture(scope="module", autouse=True)
def _compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a first collective compiles is kept, so that no example waits for it."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "first.py").write_text("import numpy, shardwise\nshardwise.all_reduce(numpy.ones(1000, 'f'))\n")
    done = execute(["-m", "shardwise", "run", "-n", 3, "first.py"], folder)
    assert done.code == 0, done.err


def broken(how: str, folder: Path) -> Ended:
    return execute(["-m", "shardwise", "run", "-n", 3, SCRIPT, "--how", how], folder)


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("raise", 1, ["rank 1 of 3 failed; the others were stopped", "ValueError: this rank's data is bad"]),
        ("kill", 137, ["rank 1 of 3 was killed by SIGKILL; the others were stopped"]),
        ("skip", 1, ["all_reduce #20 of world did not end", "rank 1 is missing", "in skip_the_collective"]),
        (
            "mismatch",
            1,
            ["ranks 0,2 call all_reduce(float32[1000], 'avg') at ", "rank 1 calls all_gather(float32[4])"],
        ),
        ("partition", 1, ["all_reduce #20 of world did not end", "rank 1 is missing: silent"]),
    ],
)
def test_each_verdict(how: str, code: int, said: list[str], tmp_path: Path) -> None:
    done = broken(how, tmp_path)
    assert done.code == code, done.err
    for words in said:
        assert words in done.err
    assert done.err.count("Traceback (most recent call last)") <= 1
    assert done.seconds < 5.0 + START


def test_the_example_says_how_it_is_called(tmp_path: Path) -> None:
    done = execute([SCRIPT, "--help"], tmp_path)
    assert done.code == 0
    for how in ("raise", "kill", "skip", "mismatch", "partition"):
        assert f"shardwise run -n 3 examples/break_it.py --how {how} " in done.out
