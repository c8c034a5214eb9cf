"""examples/deconvolve.py: the same picture on any number of ranks, by all-to-alls alone."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import deconvolve
from shardwise.collectives import explain, run_threads

SMALL = ["--every", "4", "--steps", "20"]
LAST_LINE = "china.jpg, 107 x 160 pixels: from 19.08 to 20.21 dB"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_number_of_ranks_restores_the_same(ranks: int, capsys: pytest.CaptureFixture[str]) -> None:
    def body(_: int) -> Counter[str]:
        with explain(compute=False) as moved:
            deconvolve.main(SMALL)
        return Counter(record.op for record in moved if record.shape != ())

    moved = run_threads(body, ranks)[0]
    assert capsys.readouterr().out.strip().splitlines()[-1] == LAST_LINE
    if ranks > 1:  # two to blur the photograph, and four in each step
        assert moved["all_to_all"] == 2 + 4 * 20
        assert moved["all_gather"] == moved["reduce_scatter"] == 0


def test_it_runs_under_a_launcher() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shardwise", "run", "-n", "2", str(Path(deconvolve.__file__)), *SMALL],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.strip().splitlines()[-1].endswith(LAST_LINE)
