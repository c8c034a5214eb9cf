"""The verdicts over two hosts, under ``shardwise run`` and plain mpiexec; and a training that goes well."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from house.floors import ROOT

EXAMPLES = ROOT / "examples"
SIZES = "--layers 1 --dim 16 --heads 2 --context 16 --batch 12 --steps 4 --warmup 1 --sample 5"
SOON = 80.0  # five seconds, two until the time-out, and what starting may take on a busy machine
LAST_LINE = r"validation loss (\d+\.\d{4}) nats per byte after \d+ s"

# How rank 3 breaks the job: what is said of it, and the exit code.
VERDICTS = {
    "raise": (["ValueError: this rank's data is bad"], 1),
    "kill": ([], 137),
    "skip": (["all_reduce #20 of world did not end", "rank 3 is missing", "in skip_the_collective"], 1),
    "mismatch": (["all_reduce(float32[1000], 'avg') at ", "rank 3 calls all_gather(float32[4])"], 1),
    "partition": (["all_reduce #20 of world did not end", "rank 3 is missing: silent"], 1),
}


@pytest.mark.parametrize("how", VERDICTS)
def test_a_broken_job(how: str, site: Any) -> None:
    said, code = VERDICTS[how]
    done = site.run(EXAMPLES / "break_it.py", "--how", how, "--rank", 3).finish()
    assert done.code == code, done.err
    for words in said:
        assert words in done.err
    if how == "kill":
        assert done.err.startswith(
            f"shardwise run: rank 3 of 4 was killed by SIGKILL on {site.names[1]}; the others were stopped"
        )
    assert done.err.count("Traceback (most recent call last)") <= 1
    assert done.seconds < SOON


@pytest.mark.parametrize("how", VERDICTS)
def test_a_broken_job_under_plain_mpiexec(how: str, site: Any) -> None:
    said, _ = VERDICTS[how]
    site.script = EXAMPLES / "break_it.py"
    done = site.mpiexec("--how", how, "--rank", 3).finish()
    assert done.code != 0
    for words in said:
        assert words in done.err
    assert done.err.count("Traceback (most recent call last)") <= 1
    assert done.seconds < SOON


def test_os_exit_under_plain_mpiexec(site: Any) -> None:
    site.write("""
        import os
        import numpy as np
        import shardwise as sw

        sw.barrier()
        if sw.rank() == 3:
            os._exit(3)
        while True:
            sw.all_reduce(np.ones(1000, np.float32))
    """)
    done = site.mpiexec().finish()
    assert done.code != 0
    assert done.err.count("Traceback (most recent call last)") <= 1
    assert done.seconds < SOON


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small files, so that a run takes a second."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    for i in range(20):
        (folder / f"{i}.txt").write_bytes(rng.integers(97, 105, 300).astype(np.uint8).tobytes())
    return folder


@pytest.mark.timeout(300)  # where nothing is compiled yet, that takes its time
def test_training_is_what_it_is_alone(site: Any, text: Path) -> None:
    results = []
    for name, counts in (("one", (1, 0)), ("two", (2, 2))):
        arguments = [*SIZES.split(), "--data", text, "--save", site.folder / name]
        done = site.run(EXAMPLES / "train_gpt.py", *arguments, counts=counts).finish()
        assert (done.code, done.err) == (0, ""), done.err
        last = re.search(LAST_LINE, done.out)
        assert last is not None, done.out
        results.append((float(last[1]), load_file(site.folder / name)))
    (loss, weights), (loss_of_two, weights_of_two) = results
    assert abs(loss - loss_of_two) < 1.5e-4  # one in the last digit
    for name, weight in weights.items():
        np.testing.assert_allclose(weights_of_two[name], weight, atol=3e-3)


def test_a_cut_link_under_plain_mpiexec(site: Any) -> None:
    site.write("""
        import numpy as np
        import shardwise as sw

        sw.barrier()
        print("working", flush=True)
        while True:
            sw.all_reduce(np.ones(1000, np.float32))
    """)
    job = site.mpiexec()
    job.wait_for("working", 4)
    site.hosts.cut(1)
    end = time.monotonic() + 40
    while ranks := [line for line in site.hosts.left(0.1) if f": {sys.executable} {site.script}" in line]:
        assert time.monotonic() < end, ranks
    site.hosts.kill()  # what MPI itself leaves: mpiexec, and its process on the other host
    job.finish()
