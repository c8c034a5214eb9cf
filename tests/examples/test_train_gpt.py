"""examples/train_gpt.py: the same script alone, under each launcher, and on threads."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import shardwise as sw
from doubles import FOLDER

SCRIPT = Path(__file__).parents[2] / "examples" / "train_gpt.py"
SIZES = "--layers 1 --dim 16 --heads 2 --context 16 --batch 12 --steps 4 --warmup 1 --sample 5"
SMALL = [*SIZES.split(), "--dropout", "0.1"]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",  # Open MPI refuses root, which containers run as, unless told twice
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
PRINTED = 1.5e-4  # one in the last digit of a printed loss
STEP = 3e-3  # AdamW moves a weight by about the learning rate, whatever rounding does to its gradient
LAST_LINE = r"validation loss (\d+\.\d{4}) nats per byte after \d+ s"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("train_gpt", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small files, so that a run takes a second."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    for i in range(20):
        (folder / f"{i}.txt").write_bytes(rng.integers(97, 105, 300).astype(np.uint8).tobytes())
    return folder


def run(command: list[str], text: Path, save: Path, device_transport: str = "") -> float:
    device, environment = "cpu", ENVIRONMENT
    if device_transport:  # of a device that is not there: the double takes the place of CuPy in the ranks
        path = f"{FOLDER}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        device, environment = (
            "cuda",
            {
                **ENVIRONMENT,
                "PYTHONPATH": path,
                "SHARDWISE_DEVICE_TRANSPORT": device_transport,
            },
        )
    done = subprocess.run(
        [*command, str(SCRIPT), *SMALL, "--data", str(text), "--save", str(save), "--device", device],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1].removeprefix("[r0] ")
    found = re.fullmatch(LAST_LINE, last)
    assert found, done.stdout + done.stderr
    return float(found.group(1))


@pytest.fixture(scope="module")
def alone(text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[float, dict[str, Any]]:
    save = tmp_path_factory.mktemp("alone") / "gpt.safetensors"
    return run([sys.executable], text, save), load_file(save)


def launchers() -> dict[str, list[str]]:
    bin_ = Path(sys.executable).parent
    mpiexec = shutil.which("mpiexec", path=str(bin_)) or shutil.which("mpiexec") or "mpiexec"
    return {
        "shardwise run": [sys.executable, "-m", "shardwise", "run", "-n", "2"],
        "mpiexec": [mpiexec, "-n", "2", sys.executable],
    }


@pytest.mark.parametrize("launcher", launchers())
def test_two_ranks_learn_what_one_does(
    launcher: str, text: Path, alone: tuple[float, dict[str, Any]], tmp_path: Path
) -> None:
    loss = run(launchers()[launcher], text, tmp_path / "gpt.safetensors")
    assert loss == pytest.approx(alone[0], abs=PRINTED)
    weights = load_file(tmp_path / "gpt.safetensors")
    assert weights.keys() == alone[1].keys()
    for name, array in weights.items():
        np.testing.assert_allclose(array, alone[1][name], atol=STEP / 100)


@pytest.mark.parametrize(("n", "by"), [(2, "nccl"), (4, "nccl"), (2, "staged")])
def test_on_the_double_of_a_gpu(
    n: int, by: str, text: Path, alone: tuple[float, dict[str, Any]], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "shardwise", "run", "-n", str(n)]
    loss = run(command, text, tmp_path / "gpt.safetensors", by)
    assert loss == pytest.approx(alone[0], abs=PRINTED)
    for name, array in load_file(tmp_path / "gpt.safetensors").items():
        np.testing.assert_allclose(array, alone[1][name], atol=STEP / 100)


def threaded(rank: int, text: str, save: str, *more: str) -> float:
    loss: float = load().main([*SMALL, "--data", text, "--save", save, *more])
    return loss


@pytest.mark.parametrize("n", [2, 3, 4])
def test_ranks_as_threads(
    n: int,
    text: Path,
    alone: tuple[float, dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    losses = sw.spawn(
        threaded, args=(str(text), str(tmp_path / "gpt.safetensors")), nprocs=n, transport="threads"
    )
    assert len(set(losses)) == 1
    assert losses[0] == pytest.approx(alone[0], abs=PRINTED)
    assert re.fullmatch(LAST_LINE, capsys.readouterr().out.strip().splitlines()[-1])


SPLITS = [(2, ("--tp", "2")), (4, ("--dp", "2", "--tp", "2", "--sp"))]


@pytest.mark.parametrize(("n", "more"), SPLITS, ids=str)
def test_split_over_ranks(
    n: int, more: tuple[str, ...], text: Path, alone: tuple[float, dict[str, Any]], tmp_path: Path
) -> None:
    save = tmp_path / "gpt.safetensors"
    losses = sw.spawn(threaded, args=(str(text), str(save), *more), nprocs=n, transport="threads")
    assert losses[0] == pytest.approx(alone[0], abs=PRINTED)
    for name, array in load_file(save).items():  # wholes
        np.testing.assert_allclose(array, alone[1][name], atol=STEP / 100)


def test_heads_that_do_not_divide(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        threaded(0, str(text), str(tmp_path / "w"), "--tp", "3")
    assert "--heads 2 cannot be split over --tp 3 ranks" in capsys.readouterr().err


def test_a_batch_that_does_not_divide(text: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="a global batch of 12 rows does not divide over 5 ranks; use 10 or 15"
    ):
        sw.spawn(threaded, args=(str(text), str(tmp_path / "w")), nprocs=5, transport="threads")


def test_what_is_read() -> None:
    module = load()
    train, valid, digest = module.read(module.STDLIB)
    assert len(valid) >= 500_000
    assert len(train) + len(valid) == 8 * 2**20
    assert module.read(module.STDLIB)[2] == digest
    train, valid, _ = module.read(SCRIPT)
    assert len(valid) == pytest.approx(SCRIPT.stat().st_size / 10, abs=1)
    assert bytes(train) + bytes(valid) == SCRIPT.read_bytes()
