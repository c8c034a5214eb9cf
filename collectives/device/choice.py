"""Which way device arrays go between the ranks of a group: one that all members can, and all take.

Each rank finds out what it can; `choose` is a pure function of what all can, so that all come to the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from shardwise.backend.errors import CollectiveError, DeviceError
from shardwise.collectives.rank_list import rank_list

__all__ = ["DEVICE_TRANSPORTS", "Abilities", "Choice", "DeviceTransport", "choose"]

DeviceTransport: TypeAlias = Literal["nccl", "mpi-cuda", "staged"]

DEVICE_TRANSPORTS: tuple[DeviceTransport, ...] = get_args(DeviceTransport)
"""In the order in which they are preferred."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one rank has.

    Attributes
    ----------
    rank : int
        Global.
    host, device : str
        What tells its host and its device from all others.
    nccl : int
        Version of NCCL as it counts them, 22304 for 2.23.4; 0 where there is none.
    lacks : dict of str to str
        Why it cannot use a transport; without an entry it can.
    forced : str
        What ``SHARDWISE_DEVICE_TRANSPORT`` says, or nothing.
    shares : bool
        Whether ranks may share a device: ``SHARDWISE_SHARE_GPUS=1``.
    """

    rank: int
    host: str
    device: str
    nccl: int
    lacks: dict[str, str]
    forced: str
    shares: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """What a group takes, and why."""

    transport: DeviceTransport
    reason: str


def choose(members: Sequence[Abilities]) -> Choice:
    """Choose the transport of a group.

    Parameters
    ----------
    members : sequence of Abilities
        Of all members, in the order of the group.

    Returns
    -------
    Choice

    Raises
    ------
    DeviceError
        If two ranks have one device, and may not share it.
    CollectiveError
        If the one that was asked for cannot be had, or ranks ask for different ones.
    """
    shared = _shared(members)
    if shared and not all(member.shares for member in members):
        raise DeviceError(
            f"{shared}. Give each rank its own, by shardwise.collectives.local_device() before the first "
            f"array and no more ranks per host than it has GPUs; or let them share, slower, by "
            f"SHARDWISE_SHARE_GPUS=1 on all ranks (shardwise run --share-gpus)."
        )
    against = {name: _against(name, members, shared) for name in DEVICE_TRANSPORTS}
    forced = {member.forced for member in members}
    if len(forced) > 1:
        listed = ", ".join(f"{member.forced or 'nothing'} on rank {member.rank}" for member in members)
        raise CollectiveError(
            f"SHARDWISE_DEVICE_TRANSPORT differs between ranks: {listed}. Give all the same."
        )
    [asked] = forced
    if asked:
        for name in DEVICE_TRANSPORTS:
            if name == asked:
                if against[name]:
                    raise CollectiveError(f"SHARDWISE_DEVICE_TRANSPORT={asked}, but {against[name]}.")
                return Choice(name, "SHARDWISE_DEVICE_TRANSPORT says so")
        raise CollectiveError(
            f"SHARDWISE_DEVICE_TRANSPORT={asked}: there is no such transport; "
            f"choose one of {', '.join(DEVICE_TRANSPORTS)}, or leave it out."
        )
    reasons: list[str] = []
    for name in DEVICE_TRANSPORTS:
        if not against[name]:
            return Choice(name, "; ".join(reasons) or "all ranks have it")
        reasons.append(f"not {name}: {against[name]}")
    raise CollectiveError(f"no transport takes device arrays between these ranks: {'; '.join(reasons)}.")


def _shared(members: Sequence[Abilities]) -> str:
    count = Counter((member.host, member.device) for member in members)
    for (host, device), times in count.items():
        if times > 1:
            ranks = [member.rank for member in members if (member.host, member.device) == (host, device)]
            return f"{rank_list(ranks)} share the GPU {device.split()[0]} of {host.split()[0]}"
    return ""


def _against(name: DeviceTransport, members: Sequence[Abilities], shared: str) -> str:
    """Say what keeps a group from a transport; nothing if nothing does."""
    for member in members:
        if name in member.lacks:
            return f"rank {member.rank}: {member.lacks[name]}"
    if name == "nccl":
        if shared:
            return shared
        versions = {member.nccl: member.rank for member in reversed(members)}
        if len(versions) > 1:
            (a, i), (b, j) = sorted((rank, version) for version, rank in versions.items())[:2]
            return f"rank {a} has NCCL {spell(i)}, rank {b} has {spell(j)}"
    return ""


def spell(version: int) -> str:
    """Write a version of NCCL: 22304 is 2.23.4."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"
