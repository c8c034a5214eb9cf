"""examples/pipeline_gpt.py: every schedule learns what one rank does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pipeline_gpt
import shardwise as sw

SCRIPT = Path(__file__).parents[2] / "examples" / "pipeline_gpt.py"
SIZES = "--layers 4 --dim 16 --heads 2 --context 16 --batch 13 --steps 3 --microbatches 8"
SMALL = [*SIZES.split(), "--dropout", "0.1", "--tie"]
LAST_LINE = r"loss (\d+\.\d{6}) after 3 steps of (\w+) on (\d) ranks"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of small files, so that a run takes a second."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    for i in range(20):
        (folder / f"{i}.txt").write_bytes(rng.integers(97, 105, 300).astype(np.uint8).tobytes())
    return str(folder)


@pytest.fixture(scope="module")
def alone(text: str) -> list[float]:
    return threaded(0, text, "GPipe")


def threaded(rank: int, text: str, schedule: str, *more: str) -> list[float]:
    return pipeline_gpt.main([*SMALL, "--data", text, "--schedule", schedule, *more])


@pytest.mark.parametrize(
    ("schedule", "ranks"),
    [("1F1B", 2), ("1F1B", 4), ("ZBH1", 3), ("Interleaved1F1B", 2), ("ZBVZeroBubble", 2), ("DualPipe", 2)],
)
def test_ranks_as_threads(
    schedule: str, ranks: int, text: str, alone: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--checkpoint", "--check") if ranks == 4 else ()
    losses = sw.spawn(threaded, args=(text, schedule, *more), nprocs=ranks, transport="threads")
    for each in losses:
        np.testing.assert_allclose(each, alone, rtol=2e-5)
    told = capsys.readouterr().out
    assert "tied: recent.0.weight in stage 0, head.weight in stage" in told
    assert re.search(r"rank 0 \|", told)
    assert re.search(r"bubble: \d+\.\d% of alike stages", told)
    last = re.fullmatch(LAST_LINE, told.strip().splitlines()[-1])
    assert last
    assert (last[2], last[3]) == (f"Schedule{schedule}", str(ranks))


@pytest.mark.parametrize("launcher", ["shardwise run", "mpiexec"])
def test_processes(launcher: str, text: str, alone: list[float]) -> None:
    bin_ = Path(sys.executable).parent
    mpiexec = shutil.which("mpiexec", path=str(bin_)) or shutil.which("mpiexec") or "mpiexec"
    command = {
        "shardwise run": [sys.executable, "-m", "shardwise", "run", "-n", "2"],
        "mpiexec": [mpiexec, "-n", "2", sys.executable],
    }[launcher]
    environment = {
        "OMP_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",  # Open MPI refuses root, which containers run as, unless told twice
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = subprocess.run(
        [*command, str(SCRIPT), *SMALL, "--data", text, "--schedule", "ZBVZeroBubble"],
        capture_output=True, text=True, timeout=100, check=False, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    last = re.fullmatch(LAST_LINE, done.stdout.strip().splitlines()[-1].removeprefix("[r0] "))
    assert last, done.stdout + done.stderr
    assert float(last[1]) == pytest.approx(alone[-1], rel=2e-5)
    assert (last[2], last[3]) == ("ScheduleZBVZeroBubble", "2")


def test_too_little_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("short text", encoding="utf-8")
    with pytest.raises(SystemExit):
        pipeline_gpt.main(["--data", str(tmp_path)])
    assert "has too little text for --context 128" in capsys.readouterr().err
