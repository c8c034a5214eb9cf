"""Which host this is, and under which of its addresses the others shall call it."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwise.backend.errors import LaunchError

__all__ = ["Interface", "all_interfaces", "choose_meeting_point", "host_id", "interfaces", "own_address"]

_SIOCGIFADDR, _SIOCGIFFLAGS, _SIOCGIFNETMASK = 0x8915, 0x8913, 0x891B  # Linux
_UP, _LOOPBACK = 0x1, 0x8
_NOWHERE = "192.0.2.1"  # an address for documentation: asked for a route to it, nothing is sent


@dataclass(frozen=True, slots=True)
class Interface:
    """One address of this host.

    Attributes
    ----------
    name : str
        Such as ``eth0``; empty where the system does not tell.
    address : str
    prefix : int
        Bits of the network's part.
    """

    name: str
    address: str
    prefix: int

    def reaches(self, address: str) -> bool:
        """Say whether `address` is in the network of this interface."""
        network = ipaddress.ip_network(f"{self.address}/{self.prefix}", strict=False)
        other = ipaddress.ip_address(address)
        return other.version == network.version and other in network


def host_id() -> str:
    """Give a text that is equal for processes that can share memory and local sockets, and for no others.

    Two containers or network namespaces of one machine may share /dev/shm and not see each other's sockets,
    or have one hostname; so the running kernel and the network namespace count too.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = f"{uuid.getnode():x}"
    try:
        namespace = os.stat("/proc/self/ns/net").st_ino
    except OSError:
        namespace = 0
    return f"{socket.gethostname()}/{boot}/{namespace}"


def interfaces(choice: str | None) -> list[Interface]:
    """List the addresses of this host by which others may reach it, never a loopback one.

    Parameters
    ----------
    choice : str, optional
        Keep only those of this name, address or network (``10.0.0.0/8``).

    Returns
    -------
    list of Interface
        The one that leads to the outside first.

    Raises
    ------
    LaunchError
        If none is left.
    """
    found = all_interfaces()
    kept = found if choice is None else [each for each in found if _is_chosen(each, choice)]
    if not kept:
        there = ", ".join(f"{each.name} {each.address}/{each.prefix}" for each in found) or "none"
        wanted = "" if choice is None else f" {choice} (SHARDWISE_IFACE)"
        raise LaunchError(
            f"host {socket.gethostname()} has no network interface{wanted} that other hosts can reach; "
            f"it has: {there}. Set SHARDWISE_IFACE to the name, the address or the network (10.0.0.0/8) of "
            f"the one to use."
        )
    outside = _source_towards(_NOWHERE)
    return sorted(kept, key=lambda each: each.address != outside)


def choose_meeting_point(hosts: Sequence[Sequence[Interface]]) -> str:
    """Choose the address of the first host that the others shall call, the same on all ranks.

    Parameters
    ----------
    hosts : sequence of lists of Interface
        Of each host, rank 0's first.

    Returns
    -------
    str
        The first address in whose network most of the other hosts have one too.
    """
    best, most = hosts[0][0].address, 0
    for each in hosts[0]:
        near = sum(any(each.reaches(other.address) for other in host) for host in hosts[1:])
        if near > most:
            best, most = each.address, near
    return best


def own_address(mine: Sequence[Interface], meeting_point: str) -> str:
    """Choose which of this host's addresses the ranks of other hosts shall call.

    Parameters
    ----------
    mine : sequence of Interface
    meeting_point : str
        Where rank 0 is.
    """
    addresses = [each.address for each in mine]
    if meeting_point in addresses:
        return meeting_point
    source = _source_towards(meeting_point)
    if source in addresses:
        return source
    near = [each.address for each in mine if each.reaches(meeting_point)]
    return near[0] if near else addresses[0]


def _is_chosen(interface: Interface, choice: str) -> bool:
    if choice == interface.name:
        return True
    try:
        network = ipaddress.ip_network(choice, strict=False)
    except ValueError:
        return False
    return ipaddress.ip_address(interface.address) in network


def _source_towards(address: str) -> str:
    """Ask the kernel which of our addresses it would use to reach `address`; empty for none."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def all_interfaces() -> list[Interface]:
    """List the addresses of this host, but for loopback ones."""
    if sys.platform != "linux":
        source = _source_towards(_NOWHERE)
        return [Interface("", source, 24)] if source else []
    return [*_listed_4(), *_listed_6()]


def _listed_4() -> list[Interface]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                (flags,) = struct.unpack_from("H", fcntl.ioctl(probe, _SIOCGIFFLAGS, request), 16)
                address = fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24]
                mask = fcntl.ioctl(probe, _SIOCGIFNETMASK, request)[20:24]
            except OSError:  # it has no address
                continue
            if flags & _UP and not flags & _LOOPBACK:
                bits = int.from_bytes(mask, "big").bit_count()
                found.append(Interface(name, socket.inet_ntoa(address), bits))
    return found


def _listed_6() -> list[Interface]:
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        digits, _, prefix, scope, _, name = line.split()
        if scope == "00" and name != "lo":  # seen from everywhere
            found.append(Interface(name, str(ipaddress.IPv6Address(bytes.fromhex(digits))), int(prefix, 16)))
    return found
