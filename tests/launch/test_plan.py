"""What is refused before anything starts."""

from __future__ import annotations

import pytest

from shardwise.backend.errors import LaunchError
from shardwise.launch.cores import find_cores
from shardwise.launch.plan import plan_job
from shardwise.launch.reach import Reach

TARGET = ("script.py", "--flag")


def test_one_rank_is_started_by_python_itself() -> None:
    plan = plan_job(Reach(1), TARGET, {})
    assert plan.argv[-4:] == ("0", "1", *TARGET)
    assert plan.warnings == ()


def test_inside_an_mpi_job_it_is_named() -> None:
    environ = {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}
    with pytest.raises(LaunchError) as caught:
        plan_job(Reach(2), TARGET, environ)
    assert str(caught.value) == (
        "this process is already rank 1 of 4, started by MPICH's mpiexec: use either that launcher (with "
        "`python script.py`) or `shardwise run`, not one inside the other. If its variables are left over "
        "from something else, unset them"
    )


def test_a_batch_script_is_no_rank() -> None:
    assert (
        plan_job(Reach(1), TARGET, {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"}).size == 1
    )


def test_many_ranks_must_be_meant() -> None:
    count = find_cores().count
    size = 16 * count + 1
    with pytest.raises(
        LaunchError, match=f"{size} ranks on {count} cores? is more than 16 per core: use -n {count}"
    ):
        plan_job(Reach(size), TARGET, {})
    plan = plan_job(Reach(size), TARGET, {}, oversubscribe=True)
    assert plan.environment["OMP_NUM_THREADS"] == "1"
    assert "SHARDWISE_CORES" not in plan.environment


def test_every_job_has_its_own_id() -> None:
    assert (
        plan_job(Reach(1), TARGET, {}).environment["SHARDWISE_RUN_ID"]
        != (plan_job(Reach(1), TARGET, {}).environment["SHARDWISE_RUN_ID"])
    )
