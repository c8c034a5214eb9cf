"""`shardwise doctor`, as a user calls it: alone, with ranks, and where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.command import Ended, execute


@pytest.fixture
def doctor(tmp_path: Path) -> Any:
    """Runs ``shardwise doctor`` with the given arguments."""

    def run(*arguments: object, **environment: str) -> Ended:
        return execute(["-m", "shardwise", "doctor", *arguments], tmp_path, "", **environment)

    return run


def test_alone(doctor: Any) -> None:
    done = doctor("--quick")
    assert done.code == 0, done.out + done.err
    headings = [line for line in done.out.splitlines() if line and not line.startswith(" ")]
    assert headings[:-1] == ["Versions", "Environment", "MPI", "Cores", "Memory and files", "Network", "GPU"]
    assert headings[-1].endswith("With ranks: shardwise doctor -n 2")
    assert "\x1b" not in done.out
    assert done.err == ""


def test_as_json_with_kernels(doctor: Any) -> None:
    done = doctor("--json")
    report = json.loads(done.out)
    assert (done.code, report["ok"], report["ranks"]) == (0, True, 1)
    assert 0 < report["seconds"] < 100
    (kernels,) = [each for each in report["findings"] if each["family"] == "Kernels"]
    assert (kernels["name"], kernels["status"]) == ("fused kernels", "ok")
    assert all(each["fix"] for each in report["findings"] if each["status"] != "ok")


def test_with_ranks(doctor: Any) -> None:
    done = doctor("-n", 2, "--json", "--quick", "--timeout", 60)
    assert done.code == 0, done.out + done.err
    report = json.loads(done.out)
    assert report["ranks"] == 2
    found = {each["name"]: each for each in report["findings"]}
    assert found["world"]["what"].startswith("2 ranks over mpi on ")
    assert found["ranks 0 and 1 of one host"]["what"].startswith("1 KiB in ")
    assert {
        "thread level",
        "ranks and cores",
        "clocks",
        "all_reduce, shared memory",
        "all_reduce, symmetric memory",
        "all_reduce, MPI alone",
    } <= found.keys()


def test_the_environment_of_a_job_that_is_over(doctor: Any) -> None:
    done = doctor("--quick", RANK="1", WORLD_SIZE="4")
    assert done.code == 1
    (wrong,) = [line for line in done.out.splitlines() if line.startswith("  FAIL")]
    assert "RANK=1 and WORLD_SIZE=4 are set, but nothing runs that would set them" in wrong
    assert "-> unset RANK WORLD_SIZE" in done.out


def test_a_launcher_without_its_mpi(doctor: Any) -> None:
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0"}
    done = doctor("--quick", SLURM_PROCID="0", **step)
    assert done.code == 1
    assert "Slurm's srun says that this process is rank 0 of 4, but " in done.out
    assert "srun did not connect the processes" in done.out
    assert "-> Use srun --mpi=" in done.out
    assert (doctor("--quick", SLURM_PROCID="2", **step).code, done.err) == (1, "")


def test_ranks_that_cannot_be_started(doctor: Any) -> None:
    done = doctor("-n", 2, "--quick", "--mpiexec", "absent")
    assert done.code == 1
    assert done.err == "shardwise run: --mpiexec absent: no such program\n"
    assert done.out.startswith("Versions\n")


def test_links_are_measured_and_kept(doctor: Any, tmp_path: Path) -> None:
    done = doctor("-n", 2, "--json", "--quick", "--calibrate", "--timeout", 60, XDG_CACHE_HOME=str(tmp_path))
    assert done.code == 0, done.out + done.err
    found = {each["name"]: each for each in json.loads(done.out)["findings"] if each["family"] == "Links"}
    path = tmp_path / "shardwise" / "links.json"
    assert list(found) == ["links inside a host", "costs of links"]
    assert found["costs of links"]["what"].startswith(f"{path}; plans use them after ")
    assert json.loads(path.read_text())["bandwidth"] > 1e6
    alone = doctor("--calibrate")
    assert alone.code == 2
    assert "--calibrate measures between ranks; say shardwise doctor -n 2 --calibrate" in alone.err
