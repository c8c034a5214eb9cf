"""What is said of hosts that are unlike this one: each judgement on made-up facts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shardwise.collectives.control.host import Interface
from shardwise.launch.checks.core import judge_affinity, judge_blas, judge_cores
from shardwise.launch.checks.finding import Finding, fail, ok, warn
from shardwise.launch.checks.gpu import Devices, judge_devices, judge_sharing
from shardwise.launch.checks.leftover import judge_leftovers, judge_settings
from shardwise.launch.checks.limit import judge_caches, judge_limits, judge_shared_memory
from shardwise.launch.checks.local import LOCAL, look
from shardwise.launch.checks.message_passing import judge_thread_level, judge_wheel
from shardwise.launch.checks.network import judge_hostname, judge_interfaces
from shardwise.launch.checks.speed import judge_pair, judge_sum
from shardwise.launch.checks.together import judge_clocks, judge_reach
from shardwise.launch.checks.version import check_versions, compare_versions
from shardwise.launch.cores import Cores
from shardwise.launch.mpi import MpiInstallation

MIB = 1 << 20
SMALL = (
    "64 MiB, 60 MiB free: gradient buckets and MPI's own buffers may not fit (a container's default is 64 "
    "MiB)"
)


def test_this_host_can_be_looked_at() -> None:
    families = look(LOCAL, lambda name: None)
    assert [family.name for family in families] == list(LOCAL)
    said = [each.what for family in families for each in family.findings]
    assert not [what for what in said if "the check itself failed" in what]


def test_versions() -> None:
    assert list(check_versions({"python": "3.12.1", "numpy": "2.4.0", "ml_dtypes": "0.5"})) == [
        warn(
            "numba", "not installed: the plain NumPy formulas run, several times slower", "pip install numba"
        ),
        ok("versions", "python 3.12.1, numpy 2.4.0, ml_dtypes 0.5"),
    ]
    assert next(iter(check_versions({"python": "3.12.1", "numba": "1"}))).what == (
        "numpy, ml_dtypes not installed for this Python"
    )


def test_hosts_with_other_versions() -> None:
    a = {"python": "3.12.1", "numpy": "2.4.0", "numba": "0.61"}
    b = {"python": "3.12.1", "numpy": "2.3.0"}
    fix = "install the same {} on all hosts, or use one environment that all of them see"
    assert list(compare_versions(["x", "y", "z"], [a, b, a])) == [
        fail("numpy", "2.4.0 on x, z; 2.3.0 on y", fix.format("numpy")),
        warn("numba", "0.61 on x, z; none on y", fix.format("numba")),
    ]
    assert list(compare_versions(["x", "y"], [a, a])) == [ok("hosts", "the same versions on all 2")]
    assert list(compare_versions(["x"], [a])) == []


@pytest.mark.parametrize(
    ("total", "free", "status", "what"),
    [
        (64 * MIB, 60 * MIB, "warn", SMALL),
        (1 << 30, 9 * MIB, "warn", "1 GiB, 9 MiB free: almost full"),
        (16 << 30, 12 << 30, "ok", "16 GiB, 12 GiB free"),
    ],
)  # fmt: skip
def test_shared_memory(total: int, free: int, status: str, what: str) -> None:
    finding = judge_shared_memory(total, free)
    assert (finding.status, finding.what) == (status, what)


def test_limits() -> None:
    assert list(judge_limits((256, 4096), 65536, 0, fabric=True)) == [
        warn("open files", "at most 256: jobs with many ranks per host need more", "ulimit -n 4096"),
        warn(
            "locked memory",
            "at most 64 KiB, and this host has InfiniBand, which then fails or is slow",
            "ulimit -l unlimited, or ask for memlock in /etc/security/limits.conf (in Slurm: LimitMEMLOCK)",
        ),
        ok("core files", "not written"),
    ]
    assert list(judge_limits((-1, -1), 65536, -1, fabric=False)) == [
        ok("open files", "at most any number"),
        ok("locked memory", "at most 64 KiB"),
        ok("core files", "not limited"),
    ]
    assert next(judge_limits((256, 512), -1, 0, fabric=False)).fix == "ulimit -n 512, or ask for a higher one"


def test_caches(tmp_path: Path) -> None:
    closed, first, last = tmp_path / "file", tmp_path / "first", tmp_path / "last"
    closed.write_text("")
    assert judge_caches([first, last]) == ok("kernel cache", str(first))
    assert judge_caches([closed / "x", last]).what == (
        f"only {last} can be written, which each host has for itself and may lose"
    )
    assert judge_caches([closed / "x"]).what == (
        f"none of {closed / 'x'} can be written: every process compiles for itself"
    )
    assert not list(first.iterdir())


@pytest.mark.parametrize(
    ("cores", "present", "alone", "expected"),
    [
        (Cores((0, 1), 2, True), 2, True, ok("cores", "2")),
        (Cores((2, 3), 2, True), 8, True, ok("cores", "2 of 8")),
        (Cores((5,), 1, True), 8, False, ok("cores", "1 of 8")),
        (
            Cores((5,), 1, True), 8, True,
            warn("cores", "1 of 8: this process is pinned to core 5, and so are all threads of a rank",
                 "mpirun --bind-to none, or srun --cpu-bind=none; shardwise run pins ranks itself"),
        ),
        (
            Cores((0, 1, 2, 3), 2, False), 4, True,
            warn("cores", "2 of 4: of 4 cores a CPU quota lets 2 run at a time, and waiting ranks use it up",
                 "use at most 2 ranks, or raise the quota (docker --cpus, Kubernetes limits.cpu)"),
        ),
    ],
)  # fmt: skip
def test_cores(cores: Cores, present: int, alone: bool, expected: Finding) -> None:
    assert judge_cores(cores, present, alone=alone) == expected


def test_ranks_and_cores() -> None:
    name = "ranks and cores"
    assert judge_affinity([[0, 1], [2, 3]], "x") == ok(name, "2 ranks on 4 cores of x")
    assert judge_affinity([[0]], "x") == ok(name, "1 rank on 1 core of x")
    assert judge_affinity([[0], [0], [0]], "x") == fail(
        name,
        "3 ranks on 1 core of x: all are pinned to core 0",
        "mpirun --bind-to core (or none), or srun --cpu-bind=cores; shardwise run pins ranks itself",
    )
    assert judge_affinity([[0], [1], [1]], "x") == warn(
        name,
        "3 ranks on 2 cores of x: 2 of them are pinned to core 1",
        "one rank per core: mpirun --bind-to core, srun --cpu-bind=cores",
    )
    assert judge_affinity([[0, 1]] * 3, "x") == warn(
        name,
        "3 ranks on 2 cores of x: each waits for the others' turns",
        "at most 2 ranks per host, or more cores (srun --cpus-per-task)",
    )


def test_blas() -> None:
    assert judge_blas([4], 4, {}) == ok("BLAS threads", "4 threads on 4 cores")
    assert judge_blas([], 1, {"OMP_NUM_THREADS": "1"}) == ok(
        "BLAS threads", "1 thread on 1 core (OMP_NUM_THREADS=1)"
    )
    assert judge_blas([1, 8], 2, {}) == warn(
        "BLAS threads", "8 threads on 2 cores: they take turns", "export OMP_NUM_THREADS=2"
    )
    assert judge_blas([1], 2, {"OPENBLAS_CORETYPE": "Haswell"}).fix == "unset OPENBLAS_CORETYPE"


def test_a_launcher_that_is_gone() -> None:
    assert list(judge_leftovers({"RANK": "3", "WORLD_SIZE": "8", "PATH": "/bin"})) == [
        fail(
            "launcher",
            "RANK=3 and WORLD_SIZE=8 are set, but nothing runs that would set them: scripts take "
            "themselves for "
            "a part of a job",
            "unset RANK WORLD_SIZE",
        )
    ]
    assert list(judge_leftovers({"LOCAL_RANK": "0"})) == [
        warn("launcher", "none, though a job that is over has left LOCAL_RANK=0", "unset LOCAL_RANK")
    ]


def test_launchers_that_are_there() -> None:
    assert list(
        judge_leftovers({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "SLURM_JOB_ID": "77"})
    ) == [
        ok("launcher", "MPICH's mpiexec, 4 ranks"),
        ok("allocation", "Slurm, job 77"),
    ]
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
    assert [each.status for each in judge_leftovers(torchrun)] == ["ok"]
    assert list(judge_leftovers({})) == [ok("launcher", "none; a script alone is a world of one")]


def test_settings_that_hurt() -> None:
    assert list(judge_settings({})) == [ok("settings", "none that is known to hurt")]
    assert list(judge_settings({"OMPI_MCA_btl": "tcp,self", "OMP_PROC_BIND": "true"})) == [
        warn(
            "settings",
            "OMPI_MCA_btl=tcp,self sends between ranks of one host through TCP",
            "unset OMPI_MCA_btl",
        ),
        warn(
            "settings",
            "OMP_PROC_BIND=true without OMP_NUM_THREADS puts threads of all ranks on one core",
            "unset OMP_PROC_BIND, or export OMP_NUM_THREADS",
        ),
    ]


def test_a_wheel_on_a_cluster() -> None:
    wheel = MpiInstallation("mpich", "MPICH 5", f"{sys.prefix}/bin/mpiexec")
    site = MpiInstallation("openmpi", "Open MPI 5", "/opt/site/bin/mpiexec")
    assert judge_wheel(wheel, {}, has_srun=False).status == "ok"
    assert judge_wheel(site, {"SLURM_JOB_ID": "1"}, has_srun=True) == ok("MPI's origin", "this system")
    assert judge_wheel(wheel, {"PBS_JOBID": "1"}, has_srun=False) == warn(
        "MPI's origin",
        "mpich from this environment in a PBS allocation: it may not span hosts, nor know their fast network",
        "module load the site's MPI, and build mpi4py with it: see Clusters in the documentation",
    )
    assert judge_wheel(wheel, {}, has_srun=True).what == (
        "mpich from this environment, on a Slurm cluster, which has one for its network"
    )


def test_thread_levels() -> None:
    levels = ("multiple", "serialized", "funneled", "single")
    assert [judge_thread_level(level).status for level in levels] == ["ok", "warn", "warn", "warn"]


def test_interfaces() -> None:
    eth, ib, docker = (
        Interface("eth0", "10.0.0.5", 24),
        Interface("ib0", "10.1.0.5", 24),
        Interface("docker0", "172.17.0.1", 16),
    )
    mtus = {"eth0": 9000, "ib0": 2044, "docker0": 0}
    assert judge_interfaces([eth, docker], mtus, chosen=False) == ok(
        "interfaces", "eth0 10.0.0.5, docker0 172.17.0.1; between hosts eth0, packets of 9000 bytes"
    )
    assert judge_interfaces([eth, ib], mtus, chosen=False) == warn(
        "interfaces",
        "eth0 10.0.0.5, ib0 10.1.0.5; between hosts eth0, packets of 9000 bytes, though ib0 looks faster",
        "export SHARDWISE_IFACE=ib0",
    )
    assert judge_interfaces([eth], mtus, chosen=True).what.endswith("(SHARDWISE_IFACE)")
    assert judge_interfaces([docker, eth], mtus, chosen=False).fix == "export SHARDWISE_IFACE=eth0"


def test_host_names() -> None:
    assert judge_hostname("a", ["10.0.0.5"]) == ok("host name", "a is 10.0.0.5")
    assert judge_hostname("a", ["127.0.1.1"]) == warn(
        "host name",
        "a is 127.0.1.1 here: another host that is told so dials itself",
        "let /etc/hosts give a the address of its network interface instead of 127.0.1.1",
    )
    assert judge_hostname("a", []).status == "warn"


def test_no_gpu() -> None:
    assert list(judge_devices(Devices(error="not installed"), there=False, environ={})) == [
        ok("GPU", "no GPU")
    ]
    assert list(judge_devices(Devices(cupy="14.0", error="no driver"), there=False, environ={})) == [
        ok("GPU", "no GPU; CuPy 14.0 is installed")
    ]


def test_a_gpu_that_cannot_be_used() -> None:
    assert list(judge_devices(Devices(error="not installed"), there=True, environ={})) == [
        warn("GPU", "there is one, but CuPy: not installed", "pip install 'shardwise[cuda12]', or [cuda13]")
    ]
    old = Devices(cupy="14.0", error="insufficient driver", runtime=12090, driver=11040)
    assert list(judge_devices(old, there=True, environ={})) == [
        fail(
            "GPU",
            "there is one, but CuPy 14.0 says insufficient driver",
            "install a driver that runs CUDA 12.9; this one runs 11.4",
        )
    ]
    assert [each.what for each in judge_devices(old, there=True, environ={"CUDA_VISIBLE_DEVICES": ""})] == [
        "hidden by CUDA_VISIBLE_DEVICES"
    ]


def test_gpus() -> None:
    two = Devices(
        "14.0",
        "",
        12090,
        12080,
        22703,
        ("H200", "H200"),
        ("aa", "bb"),
        (139 << 30,) * 2,
        (139 << 30, 1 << 30),
        ((1, 0),),
    )
    assert list(judge_devices(two, there=True, environ={})) == [
        ok("GPU", "H200 139 GiB, H200 139 GiB"),
        ok("driver", "runs CUDA 12.8; CuPy 14.0 for 12.9"),
        warn(
            "GPU memory",
            "more than half of device 1 is taken",
            "nvidia-smi shows by whom; choose other devices by CUDA_VISIBLE_DEVICES",
        ),
        ok("NCCL", "2.27.3"),
        warn(
            "peer access",
            "devices 0-1 cannot read each other's memory, so what they send goes through the host",
            "see nvidia-smi topo -m; in containers and virtual machines ask for peer access (ACS off)",
        ),
    ]


def test_ranks_that_share_a_gpu() -> None:
    assert judge_sharing([(0, "x", "aa"), (1, "x", "bb"), (2, "y", "aa")]).what == "one for each"
    assert judge_sharing([(0, "x", ""), (1, "x", "")]).what == "none"
    assert judge_sharing([(0, "x", "aa"), (1, "x", "aa")]) == warn(
        "devices of ranks",
        "ranks 0-1 share one GPU of x",
        "start as many ranks per host as it has GPUs; or mean it: --share-gpus",
    )


def test_speeds() -> None:
    assert judge_pair("0 and 1", [1.5e-6, 2e-3], crowded=False, far=False) == ok(
        "0 and 1", "1 KiB in 1.5 us, 16 MiB in 2.0 ms (8.4 GB/s)"
    )
    assert judge_pair("0 and 1", [5e-3], crowded=True, far=False).status == "ok"
    assert judge_pair("0 and 1", [5e-3], crowded=False, far=False).status == "warn"
    assert judge_pair("0 and 1", [50e-6, 1.0], crowded=True, far=True).what == (
        "1 KiB in 50.0 us, 16 MiB in 1.0 s (17 MB/s): slow for a network between hosts"
    )
    assert judge_sum("all_reduce", 2, [1e-5], crowded=False) == ok("all_reduce", "1 KiB in 10.0 us")
    assert judge_sum("all_reduce", 2, [1e-2], crowded=False).what == "1 KiB in 10.0 ms: slow"


def test_clocks() -> None:
    assert judge_clocks(["x"], [0.0]) == ok("clocks", "one host, one clock")
    assert judge_clocks(["x", "y"], [0.0, 0.002]) == ok("clocks", "at most 2.0 ms apart")
    assert judge_clocks(["x", "y", "z"], [0.0, -30.0, 0.5]) == warn(
        "clocks", "at most 30.5 s apart; y differs most", "let y keep time: systemctl enable --now chronyd"
    )


def test_reach() -> None:
    assert judge_reach(["x", "y"], [[], []]) == ok("dial-back", "each of 2 hosts reaches every other")
    assert judge_reach(["x", "y", "z"], [[2], [], [0, 1]]) == fail(
        "dial-back",
        "no answer from x to z, z to x, z to y",
        "open TCP ports between these hosts (firewall), or name their common network by SHARDWISE_IFACE",
    )
