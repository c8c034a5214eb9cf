"""The network of a host: its interfaces, which one ranks would use, and what its own name leads to."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from shardwise.backend.errors import LaunchError
from shardwise.collectives.control.host import Interface, interfaces
from shardwise.launch.checks.finding import Finding, fail, ok, warn

__all__ = ["check_network", "judge_hostname", "judge_interfaces"]

_CHOICE = "SHARDWISE_IFACE"
_CONTAINERS = ("docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "podman")
_FAST = ("ib", "hsn")  # InfiniBand, Slingshot


def check_network() -> Iterator[Finding]:
    """Look at the interfaces and the name of this host."""
    choice = os.environ.get(_CHOICE) or None
    try:
        found = interfaces(choice)
    except LaunchError as error:
        if choice is None:
            yield ok("interfaces", "none but loopback: this host is alone")
        else:
            what, _, todo = str(error).partition(". ")
            yield fail("interfaces", what, todo)
    else:
        mtus = {each.name: _mtu(each.name) for each in found}
        yield judge_interfaces(found, mtus, chosen=choice is not None)
    name = socket.gethostname()
    try:
        resolved = sorted({str(each[4][0]) for each in socket.getaddrinfo(name, None, socket.AF_INET)})
    except OSError:
        resolved = []
    yield judge_hostname(name, resolved)


def judge_interfaces(found: Sequence[Interface], mtus: dict[str, int], *, chosen: bool) -> Finding:
    """Say which interface ranks of several hosts would talk over.

    Parameters
    ----------
    found : sequence of Interface
        At least one, the one that is used first.
    mtus : dict of int
        Bytes of the largest packet by name of interface; 0 where unknown.
    chosen : bool
        Whether SHARDWISE_IFACE has chosen them.
    """
    listed = ", ".join(f"{each.name} {each.address}" for each in found)
    first = found[0].name
    mtu = f", packets of {mtus[first]} bytes" if mtus.get(first) else ""
    what = f"{listed}; between hosts {first}{mtu}" + (f" ({_CHOICE})" if chosen else "")
    others = [each.name for each in found if not each.name.startswith(_CONTAINERS)]
    if first.startswith(_CONTAINERS) and not chosen:
        return warn(
            "interfaces",
            f"{what}, which leads only to containers of this host",
            f"export {_CHOICE}={others[0] if others else 'the name of the network between the hosts'}",
        )
    fast = [name for name in others if name.startswith(_FAST)]
    if fast and first not in fast and not chosen:
        return warn("interfaces", f"{what}, though {fast[0]} looks faster", f"export {_CHOICE}={fast[0]}")
    return ok("interfaces", what)


def judge_hostname(name: str, resolved: Sequence[str]) -> Finding:
    """Say whether other hosts that look up this one's name would reach it.

    Parameters
    ----------
    name : str
    resolved : sequence of str
        The addresses that the name has here.
    """
    if not resolved:
        return warn(
            "host name",
            f"{name} has no address: an MPI that looks itself up waits or fails",
            f"add a line with this host's address and {name} to /etc/hosts",
        )
    if all(ipaddress.ip_address(address).is_loopback for address in resolved):
        return warn(
            "host name",
            f"{name} is {', '.join(resolved)} here: another host that is told so dials itself",
            f"let /etc/hosts give {name} the address of its network interface instead of {resolved[0]}",
        )
    return ok("host name", f"{name} is {', '.join(resolved)}")


def _mtu(name: str) -> int:
    try:
        return int(Path(f"/sys/class/net/{name}/mtu").read_text())
    except (OSError, ValueError):
        return 0
