"""The table of launchers, row by row, and which row wins."""

from __future__ import annotations

import pytest

from shardwise.collectives.mpi.detect import LauncherEnvironment, launcher_environment

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_COMM_WORLD_NODE_RANK": "1",
    "PMIX_RANK": "5",
}
MPICH = {"PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1", "PMI_FD": "9"}
STEP = {
    "SLURM_PROCID": "6",
    "SLURM_NTASKS": "99",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "3",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3),1",
}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}

ROWS = [
    (OPEN_MPI, LauncherEnvironment("Open MPI's mpirun", 5, 8, 1, 4)),
    (MPICH, LauncherEnvironment("MPICH's mpiexec", 2, 3, 0, 1)),
    (MPICH | {"I_MPI_MPIRUN": "mpirun"}, LauncherEnvironment("Intel MPI's mpiexec", 2, 3, 0, 1)),
    (
        {
            "MV2_COMM_WORLD_RANK": "1",
            "MV2_COMM_WORLD_SIZE": "4",
            "MV2_COMM_WORLD_LOCAL_RANK": "1",
            "MV2_COMM_WORLD_LOCAL_SIZE": "2",
        },
        LauncherEnvironment("MVAPICH's mpirun", 1, 4, 1, 2),
    ),
    (STEP, LauncherEnvironment("Slurm's srun", 6, 7, 0, 1, 3)),
    (STEP | {"SLURM_NODEID": "1"}, LauncherEnvironment("Slurm's srun", 6, 7, 0, 2, 1)),
    (
        {
            "PALS_RANKID": "4",
            "PMI_RANK": "4",
            "PMI_SIZE": "8",
            "PALS_LOCAL_RANKID": "0",
            "PALS_LOCAL_SIZE": "4",
            "PALS_NODEID": "1",
        },
        LauncherEnvironment("PALS (Cray mpiexec)", 4, 8, 0, 4, 1),
    ),
    (
        {"FLUX_TASK_RANK": "3", "FLUX_JOB_SIZE": "4", "FLUX_TASK_LOCAL_ID": "1"},
        LauncherEnvironment("Flux", 3, 4, 1, None),
    ),
    (
        {
            "JSM_NAMESPACE_RANK": "0",
            "JSM_NAMESPACE_SIZE": "6",
            "JSM_NAMESPACE_LOCAL_RANK": "0",
            "JSM_NAMESPACE_LOCAL_SIZE": "6",
        },
        LauncherEnvironment("IBM's jsrun", 0, 6, 0, 6),
    ),
    (
        {"PMI_RANK": "1", "PMI_SIZE": "2"},
        LauncherEnvironment("an MPI launcher that speaks PMI", 1, 2, None, None),
    ),
    (TORCHRUN, LauncherEnvironment("torchrun", 1, 2, 1, 2, 0)),
]


def test_shardwise_run_has_counted_the_hosts() -> None:
    # OMPI_COMM_WORLD_NODE_RANK is not the place of the node, and is never taken for it.
    assert LauncherEnvironment("Open MPI's mpirun", 5, 8, 1, 4, None) == launcher_environment(OPEN_MPI)
    counted = {"SHARDWISE_RUN_ID": "x", "NODE_RANK": "2"}
    for launched in (OPEN_MPI, MPICH):
        found = launcher_environment(launched | counted)
        assert found is not None
        assert found.node_rank == 2


@pytest.mark.parametrize(("environ", "want"), ROWS, ids=lambda each: getattr(each, "launcher", None))
def test_each_launcher(environ: dict[str, str], want: LauncherEnvironment) -> None:
    assert launcher_environment(environ) == want


def test_nothing_is_no_launcher() -> None:
    assert launcher_environment({}) is None
    assert launcher_environment({"PATH": "/bin", "HOME": "/root", "HOSTNAME": "x"}) is None


@pytest.mark.parametrize("inner", [OPEN_MPI, MPICH], ids=["Open MPI", "MPICH"])
@pytest.mark.parametrize("outer", [STEP, TORCHRUN], ids=["Slurm", "torchrun"])
def test_the_innermost_launcher_wins(inner: dict[str, str], outer: dict[str, str]) -> None:
    assert launcher_environment(outer | inner) == launcher_environment(inner)


def test_slurm_counts_only_inside_a_step() -> None:
    batch = {
        "SLURM_JOB_ID": "1",
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "8",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
    }
    assert launcher_environment(batch) is None
    # The batch script and an interactive shell run in steps of Slurm's own.
    for own in (4294967291, 4294967290, 0xFFFFFFFB, 0xFFFFFFFA):
        assert launcher_environment(batch | {"SLURM_STEP_ID": str(own)}) is None
    assert launcher_environment(batch | {"SLURM_STEP_ID": "0"}) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"PMI_RANK": "x"},
        {"PMI_RANK": "-1"},
        {"PMI_RANK": "3"},
        {"PMI_SIZE": ""},
        {"PMI_SIZE": "0"},
        {"PMI_RANK": "²"},
    ],
    ids=str,
)
def test_numbers_that_make_no_sense_do_not_count(changes: dict[str, str]) -> None:
    assert launcher_environment(MPICH | changes) is None


@pytest.mark.parametrize("text", ["", "two", "2(x", "2(x3),"])
def test_a_list_of_tasks_that_cannot_be_read_gives_no_local_size(text: str) -> None:
    found = launcher_environment(STEP | {"SLURM_STEP_TASKS_PER_NODE": text})
    assert found == LauncherEnvironment("Slurm's srun", 6, 7, 0, None, 3)
