"""Which hosts a job runs on, and how its ranks are started there: as asked, or as the allocation says."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shardwise.backend.errors import LaunchError
from shardwise.launch.allocation import Allocation, Manager, find_allocation
from shardwise.launch.host import Host, host_list, is_here, parse_hosts, read_hostfile
from shardwise.launch.placement import place

__all__ = ["LAUNCHERS", "Launcher", "Reach", "Wish", "find_reach"]

Launcher = Literal["fork", "ssh", "slurm", "lsf", "sge", "srun", "flux"]

LAUNCHERS: dict[Launcher, str] = {
    "fork": "this host alone",
    "ssh": "MPI's launcher, through ssh or what --launch-agent names",
    "slurm": "MPI's launcher, through Slurm",
    "lsf": "MPI's launcher, through blaunch of LSF",
    "sge": "MPI's launcher, through qrsh of Grid Engine",
    "srun": "srun itself",
    "flux": "flux run itself",
}
"""Every way, and what starts the ranks."""

_OF_MANAGER: dict[Manager, Launcher] = {
    "slurm": "slurm",
    "lsf": "lsf",
    "pbs": "ssh",  # few builds of MPI know PBS, and its hosts let ssh in
    "sge": "sge",
    "flux": "flux",
    "hostfile": "ssh",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for.

    Attributes
    ----------
    ranks : int or None
        None for as many as the hosts are meant for.
    hosts : str or None
    hostfile : Path or None
    launcher : Launcher or None
    agent : str or None
        What stands in for ssh.
    iface : str or None
        The network interface to use between hosts, by name, address or network.
    oversubscribe : bool
    """

    ranks: int | None = None
    hosts: str | None = None
    hostfile: Path | None = None
    launcher: Launcher | None = None
    agent: str | None = None
    iface: str | None = None
    oversubscribe: bool = False


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the ranks of a job are to run, and how they are started there.

    Attributes
    ----------
    size : int
        Number of ranks.
    hosts : tuple of Host
        In rank order, each with its number of ranks; empty where this host has all of them, or Flux decides.
    launcher : Launcher
    agent : str or None
        What stands in for ssh.
    iface : str or None
        The network interface between hosts; None for the one that leads to them.
    reasons : tuple of str
        Why, for those who ask.
    """

    size: int
    hosts: tuple[Host, ...] = ()
    launcher: Launcher = "fork"
    agent: str | None = None
    iface: str | None = None
    reasons: tuple[str, ...] = ()

    @property
    def named_interface(self) -> str | None:
        """The interface, if it is given by its name: some launchers take nothing else."""
        if self.iface is None:
            return None
        try:
            ipaddress.ip_network(self.iface, strict=False)
        except ValueError:
            return self.iface
        return None


def find_reach(wish: Wish, environ: Mapping[str, str], is_cray: Callable[[], bool]) -> Reach:
    """Decide on which hosts a job runs and how it gets there.

    Parameters
    ----------
    wish : Wish
    environ : mapping
        The environment of the launcher.
    is_cray : callable
        Says whether mpi4py uses an MPI that only the batch system can start; asked inside Slurm.

    Returns
    -------
    Reach

    Raises
    ------
    LaunchError
        If the wishes do not go together, or there is no room for the ranks.
    """
    if wish.hosts is not None and wish.hostfile is not None:
        raise LaunchError("--hosts and --hostfile both name the hosts; give one of them")
    if wish.ranks is not None and wish.ranks < 1:
        raise LaunchError(f"the number of ranks must be at least 1, got {wish.ranks}")
    if wish.hosts is not None:
        return _across(wish, parse_hosts(wish.hosts), "--hosts", wish.launcher or "ssh")
    if wish.hostfile is not None:
        hosts = read_hostfile(wish.hostfile, "--hostfile")
        return _across(wish, hosts, f"--hostfile {wish.hostfile}", wish.launcher or "ssh")
    allocation = None if wish.launcher == "fork" else find_allocation(environ)
    if allocation is not None:
        return _inside(wish, allocation, is_cray)
    if wish.launcher not in (None, "fork"):
        raise LaunchError(
            f"--launcher {wish.launcher}: there is no allocation of a batch system here, and no hosts are "
            "named; add --hosts a:2,b:2 or --hostfile FILE"
        )
    if wish.agent is not None:
        raise LaunchError("--launch-agent: no other hosts are named; add --hosts a:2,b:2 or --hostfile FILE")
    return Reach(wish.ranks or 1, reasons=("no other hosts are named, and there is no allocation",))


def _inside(wish: Wish, allocation: Allocation, is_cray: Callable[[], bool]) -> Reach:
    """Use the allocation that this process runs in."""
    launcher = wish.launcher
    why: tuple[str, ...] = ()
    if launcher is None and wish.agent is not None:
        launcher = "ssh"
    if launcher is None and allocation.manager == "slurm" and is_cray():
        launcher, why = "srun", ("the MPI that mpi4py uses is started by the batch system alone",)
    launcher = launcher or _OF_MANAGER[allocation.manager]
    if launcher == "flux":
        if allocation.manager != "flux":
            raise LaunchError("--launcher flux: this process does not run inside Flux (FLUX_URI is not set)")
        size = wish.ranks or 1
        return Reach(
            size,
            (),
            "flux" if size > 1 else "fork",
            reasons=("inside Flux (FLUX_URI), which places the ranks",),
        )
    if wish.launcher is None and wish.agent is None and launcher != "srun" and allocation.hosts:
        here = _all_here(wish, allocation)
        if here is not None:
            return here
    if not allocation.hosts:
        raise LaunchError(
            f"--launcher {launcher}: Flux does not say which hosts there are; name them by --hosts"
        )
    found = _across(wish, allocation.hosts, f"{allocation.manager}, {allocation.source}", launcher)
    return Reach(found.size, found.hosts, found.launcher, found.agent, found.iface, (*found.reasons, *why))


def _all_here(wish: Wish, allocation: Allocation) -> Reach | None:
    """An allocation of this host alone does not bound the number of ranks; its cores do, as everywhere."""
    if not all(is_here(host.name) for host in allocation.hosts):
        return None
    size = wish.ranks or sum(host.slots or 1 for host in allocation.hosts)
    return Reach(
        size,
        reasons=(f"the allocation ({allocation.manager}, {allocation.source}) is this host alone",),
    )


def _across(wish: Wish, hosts: tuple[Host, ...], source: str, launcher: Launcher) -> Reach:
    """Place the ranks on these hosts."""
    placed = place(hosts, wish.ranks, source, oversubscribe=wish.oversubscribe)
    size = sum(host.slots or 0 for host in placed)
    where = f"hosts {host_list(hosts)} (from {source}); {size} ranks on {host_list(placed)}"
    is_free = wish.launcher in (None, "fork") and launcher != "srun"
    if is_free and all(is_here(host.name) for host in placed):
        return Reach(size, reasons=(where, "all of it is this host, so no remote shell is needed"))
    if launcher == "fork":
        raise LaunchError(
            f"--launcher fork starts ranks on this host only, and {source} names others: {host_list(placed)}"
        )
    if launcher == "flux":
        raise LaunchError("--launcher flux places the ranks itself; leave the hosts out")
    if launcher == "srun" and not source.startswith("slurm"):
        raise LaunchError(f"--launcher srun uses the hosts of the allocation; leave {source.split()[0]} out")
    if wish.agent is not None and launcher != "ssh":
        raise LaunchError(f"--launch-agent stands in for ssh, which --launcher {launcher} does not use")
    how = f"ranks are started by {LAUNCHERS[launcher]}"
    return Reach(size, placed, launcher, wish.agent, wish.iface, (where, how))
