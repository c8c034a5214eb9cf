"""Which hosts a job runs on, and by which command its ranks are started there."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import pytest

from shardwise.backend.errors import LaunchError
from shardwise.launch.command import flux_command, mpi_command, srun_command
from shardwise.launch.host import Host, host_list
from shardwise.launch.mpi import MpiInstallation
from shardwise.launch.reach import Reach, Wish, find_reach

SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_NTASKS": "4",
    "SLURM_TASKS_PER_NODE": "2(x2)",
    "SLURM_JOB_CPUS_PER_NODE": "4(x2)",
}
TWO = (Host("a", 2), Host("b", 1))


def reach(wish: Wish, environ: dict[str, str] | None = None, *, cray: bool = False) -> Reach:
    return find_reach(wish, environ or {}, lambda: cray)


def test_without_hosts_it_is_this_one() -> None:
    assert reach(Wish()).size == 1
    found = reach(Wish(ranks=3))
    assert (found.size, found.hosts, found.launcher) == (3, (), "fork")
    assert found.reasons == ("no other hosts are named, and there is no allocation",)


def test_hosts_that_are_named() -> None:
    found = reach(Wish(hosts="a:2,b:2", ranks=3, agent="rsh", iface="eth0"))
    assert (found.size, found.hosts, found.launcher) == (3, TWO, "ssh")
    assert (found.agent, found.iface) == ("rsh", "eth0")
    assert found.reasons == (
        "hosts a:2,b:2 (from --hosts); 3 ranks on a:2,b:1",
        "ranks are started by MPI's launcher, through ssh or what --launch-agent names",
    )


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", socket.gethostname()])
def test_names_of_this_host_need_no_remote_shell(name: str) -> None:
    found = reach(Wish(hosts=f"{name}:3"))
    assert (found.size, found.hosts, found.launcher) == (3, (), "fork")
    assert reach(Wish(hosts=f"{name}:3", launcher="ssh")).launcher == "ssh"


def test_a_hostfile(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a slots=2\nb\n")
    assert reach(Wish(hostfile=path)).hosts == TWO


@pytest.mark.parametrize(
    ("wish", "size", "hosts", "launcher"),
    [
        (Wish(), 4, "n1:2,n2:2", "slurm"),
        (Wish(ranks=3), 3, "n1:2,n2:1", "slurm"),
        (Wish(ranks=8), 8, "n1:4,n2:4", "slurm"),
        (Wish(launcher="srun"), 4, "n1:2,n2:2", "srun"),
        (Wish(launcher="ssh"), 4, "n1:2,n2:2", "ssh"),
        (Wish(agent="rsh"), 4, "n1:2,n2:2", "ssh"),
        (Wish(launcher="fork", ranks=2), 2, "", "fork"),
        (Wish(hosts="a:1,b:1"), 2, "a:1,b:1", "ssh"),
    ],
)
def test_inside_slurm(wish: Wish, size: int, hosts: str, launcher: str) -> None:
    found = reach(wish, SLURM)
    assert (found.size, host_list(found.hosts), found.launcher) == (size, hosts, launcher)


@pytest.mark.parametrize(("ranks", "size"), [(None, 2), (1, 1), (7, 7)])
def test_an_allocation_of_this_host_alone(ranks: int | None, size: int) -> None:
    environ = SLURM | {"SLURM_JOB_NODELIST": socket.gethostname(), "SLURM_TASKS_PER_NODE": "2"}
    environ |= {"SLURM_JOB_CPUS_PER_NODE": "2"}
    found = reach(Wish(ranks=ranks), environ)
    assert (found.size, found.hosts, found.launcher) == (size, (), "fork")
    assert found.reasons == ("the allocation (slurm, SLURM_JOB_NODELIST) is this host alone",)
    assert reach(Wish(ranks=1), environ, cray=True).launcher == "srun"


def test_an_mpi_that_only_slurm_starts() -> None:
    found = reach(Wish(), SLURM, cray=True)
    assert found.launcher == "srun"
    assert found.reasons[-1] == "the MPI that mpi4py uses is started by the batch system alone"


def test_inside_flux() -> None:
    assert reach(Wish(ranks=4), {"FLUX_URI": "x"}).launcher == "flux"
    assert reach(Wish(), {"FLUX_URI": "x"}).launcher == "fork"


@pytest.mark.parametrize(
    ("wish", "environ", "message"),
    [
        (
            Wish(hosts="a", hostfile=Path("f")),
            {},
            "--hosts and --hostfile both name the hosts; give one of them",
        ),
        (Wish(ranks=0, hosts="a"), {}, "the number of ranks must be at least 1, got 0"),
        (
            Wish(launcher="slurm"),
            {},
            "--launcher slurm: there is no allocation of a batch system here, and no hosts are named; add "
            "--hosts a:2,b:2 or --hostfile FILE",
        ),
        (
            Wish(agent="rsh"),
            {},
            "--launch-agent: no other hosts are named; add --hosts a:2,b:2 or --hostfile FILE",
        ),
        (
            Wish(hosts="a:1", launcher="fork"),
            {},
            "--launcher fork starts ranks on this host only, and --hosts names others: a:1",
        ),
        (
            Wish(hosts="a:1", launcher="srun"),
            SLURM,
            "--launcher srun uses the hosts of the allocation; leave --hosts out",
        ),
        (
            Wish(hosts="a:1", launcher="flux"),
            {},
            "--launcher flux places the ranks itself; leave the hosts out",
        ),
        (
            Wish(launcher="slurm", agent="rsh"),
            SLURM,
            "--launch-agent stands in for ssh, which --launcher slurm does not use",
        ),
        (
            Wish(launcher="flux"),
            SLURM,
            "--launcher flux: this process does not run inside Flux (FLUX_URI is not set)",
        ),
        (
            Wish(launcher="ssh"),
            {"FLUX_URI": "x"},
            "--launcher ssh: Flux does not say which hosts there are; name them by --hosts",
        ),
        (
            Wish(ranks=9),
            SLURM,
            "-n 9 is more than the 4 ranks that there is room for on n1:2,n2:2 (from slurm, "
            "SLURM_JOB_NODELIST): use -n 4, name more, or --oversubscribe if you mean it",
        ),
    ],
)
def test_wishes_that_do_not_go_together(wish: Wish, environ: dict[str, str], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        reach(wish, environ)
    assert str(caught.value) == message


def command(flavour: str, version: str = "", exported: tuple[str, ...] = (), **more: object) -> str:
    assert flavour in ("mpich", "openmpi", "intel")
    mpi = MpiInstallation(flavour, version, "/x/mpiexec")  # type: ignore[arg-type]
    found = Reach(3, TWO, **({"launcher": "ssh"} | more))  # type: ignore[arg-type]
    argv = mpi_command(mpi, 3, ("p", "q r"), 2, found, exported).argv
    return shlex.join(argv).replace(" --allow-run-as-root", "")


def test_the_command_of_mpich() -> None:
    rest = "-rmk user -bind-to none -genvall -hosts a:2,b:1 -n 3 p 'q r'"
    assert command("mpich") == f"/x/mpiexec -launcher ssh {rest}"
    assert command("mpich", launcher="slurm") == f"/x/mpiexec -launcher slurm {rest}"
    named = command("mpich", agent="/y/agent", iface="ib0")
    assert named == f"/x/mpiexec -launcher ssh -launcher-exec /y/agent -iface ib0 {rest}"
    # Hydra takes names only.
    assert command("mpich", iface="10.0.0.0/8") == f"/x/mpiexec -launcher ssh {rest}"


def test_the_command_of_open_mpi() -> None:
    head = "/x/mpiexec --bind-to none --map-by slot:OVERSUBSCRIBE"
    rest = "-n 3 p 'q r'"
    assert command("openmpi", "Open MPI v5.0.11") == f"{head} --host a:2,b:1 --prtemca plm ssh {rest}"
    named = command("openmpi", "Open MPI v5.0.11", ("A", "B"), agent="/y/agent -v", iface="10.0.0.0/8")
    assert named == (
        f"{head} --host a:2,b:1 --prtemca plm ssh --prtemca plm_ssh_agent '/y/agent -v' --mca "
        f"btl_tcp_if_include 10.0.0.0/8 --prtemca prte_if_include 10.0.0.0/8 -x A -x B {rest}"
    )
    old = command("openmpi", "Open MPI v4.1.6", agent="rsh", iface="eth0")
    assert old == (
        f"{head} --host a:2,b:1 --mca plm rsh --mca plm_rsh_agent rsh --mca btl_tcp_if_include eth0 "
        f"--mca oob_tcp_if_include eth0 {rest}"
    )
    assert "--prtemca plm slurm" in command("openmpi", launcher="slurm")
    assert "--prtemca plm_ssh_agent blaunch" in command("openmpi", launcher="lsf")


def test_the_command_of_intel_mpi() -> None:
    parts = "-rmk user -genvall -n 2 -host a p 'q r' : -n 1 -host b p 'q r'"
    assert command("intel") == f"/x/mpiexec -bootstrap ssh {parts}"
    named = command("intel", agent="rsh", iface="eth0")
    assert named == f"/x/mpiexec -bootstrap ssh -bootstrap-exec rsh -iface eth0 {parts}"


def test_the_commands_of_batch_systems() -> None:
    found = Reach(4, (Host("a", 2), Host("b", 2)), "srun")
    assert " ".join(srun_command("openmpi", ("p",), found, choose=True).argv) == (
        "srun --ntasks=4 --nodes=2 --distribution=block --ntasks-per-node=2 --nodelist=a,b --mpi=pmix "
        "--cpu-bind=none --kill-on-bad-exit=1 --export=ALL p"
    )
    assert "--mpi=pmi2" in srun_command("mpich", ("p",), found, choose=True).argv
    assert "--mpi=cray_shasta" in srun_command(None, ("p",), found, choose=True).argv
    assert not any(
        word.startswith("--mpi") for word in srun_command("mpich", ("p",), found, choose=False).argv
    )
    uneven = srun_command("mpich", ("p",), Reach(3, TWO, "srun"), choose=True).argv
    assert not any(word.startswith("--ntasks-per-node") for word in uneven)
    assert " ".join(flux_command(4, ("p",)).argv) == "flux run --ntasks=4 --setopt=cpu-affinity=off p"
