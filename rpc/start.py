"""Start and end remote calls."""

from __future__ import annotations

import os
import re
import secrets
import socket
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shardwise.backend.cuda import CudaBackend
from shardwise.backend.errors import ArgumentError, RpcError
from shardwise.collectives import (
    Communicator,
    ProcessGroup,
    World,
    all_gather_object,
    communicator_ranks,
    get_world,
)
from shardwise.collectives.control import Peer
from shardwise.collectives.control.handshake import KEY_BYTES
from shardwise.rpc.agent import Agent
from shardwise.rpc.call import attach_calls
from shardwise.rpc.current import current_agent, leave_process, own_context, own_process
from shardwise.rpc.destination import find_worker
from shardwise.rpc.device_map import DeviceMaps, check_device_maps
from shardwise.rpc.objects import join_objects
from shardwise.rpc.serving.gather import attach_gathering
from shardwise.rpc.serving.options import RpcBackendOptions, check_timeout
from shardwise.rpc.serving.parting import part_together
from shardwise.rpc.serving.socket_agent import SocketAgent
from shardwise.rpc.wire.address import Address, listen
from shardwise.rpc.worker_info import WorkerInfo

__all__ = [
    "debug_info",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "set_rpc_timeout",
    "shutdown",
    "stats",
]

PARTS: tuple[Callable[[Agent], None], ...] = (attach_gathering, attach_calls, join_objects)
"""What every agent is given before the first message can come: each registers its handlers."""

_NAME = re.compile(r"[A-Za-z0-9_:\-]+")
_LONGEST = 127
_KINDS: dict[str, type[Exception]] = {"type": TypeError, "value": ArgumentError, "rpc": RpcError}


def init_rpc(
    name: str,
    backend: object = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
    *,
    ranks: ProcessGroup | Communicator | Iterable[int] | None = None,
) -> None:
    """Make this rank a worker that can call others, and be called. All ranks of the group call it.

    Parameters
    ----------
    name : str
        1 to 127 of letters, digits, ``_``, ``:`` and ``-``; unique in the group.
    backend : None
        For PyTorch's sake; there is one.
    rank : int
        This worker's id, if it is to be checked: its place in the group.
    world_size : int, optional
        Size of the group, if it is to be checked.
    rpc_backend_options : RpcBackendOptions, optional
        Each worker may have its own.
    ranks : ProcessGroup, Communicator or iterable of int, optional
        Global ranks of the group, in the order of the workers' ids; by default all.

    Raises
    ------
    TypeError, ArgumentError, RpcError
        On all workers, if an argument of one of them is not right, or two have one name.
    RpcError
        If this worker was initialized before, and not shut down.

    Notes
    -----
    Two all-gathers of objects; it returns when everybody can be called. Connections are made when they are
    first needed, at the addresses of the control plane, with a key that is made for this group.

    Examples
    --------
    >>> from shardwise import rpc
    >>> rpc.init_rpc("alone")
    >>> rpc.rpc_sync("alone", abs, (-3,))
    3
    >>> rpc.shutdown()
    """
    _check_fresh()
    world = get_world()
    group = _group(world, ranks)
    options = rpc_backend_options
    entry, sockets = _enter(world, group, name, backend, rank, world_size, options)
    try:
        entries = [entry] if group.size == 1 else all_gather_object(entry, group)
        _check_entries(entries, group)
        maps = _device_maps(entries, group)
        workers = [WorkerInfo(each.name, id) for id, each in enumerate(entries)]
        me = group.member("init_rpc")
        agent = SocketAgent(
            me,
            workers,
            group.ranks,
            [each.address for each in entries],
            entries[0].key,
            sockets,
            options if options is not None else RpcBackendOptions(),
        )
    except BaseException:
        for each in sockets:
            each.close()
        raise
    agent.parts[DeviceMaps] = DeviceMaps(me, maps)
    for attach in PARTS:
        attach(agent)
    _follow_deaths(world, group, agent)
    if _is_thread(world):
        own_context(agent)
    else:
        own_process(agent)
    if group.size > 1:
        all_gather_object(None, group)  # so that nobody is called who has no handlers yet


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """End remote calls on this worker.

    Parameters
    ----------
    graceful : bool
        Wait until all workers have come here, and until no call of the group runs or is on its way, those of
        calls included; this worker serves the others meanwhile. Else end now, whoever waits.
    timeout : float
        Seconds to wait for the others; 0 for no limit.

    Raises
    ------
    RpcTimeoutError
        If not all was quiet in time. This worker has ended all the same.
    RpcError
        If it was not initialized.
    """
    agent = _own()
    limit = check_timeout(timeout, "timeout")
    try:
        if graceful:
            part_together(agent, limit)
    finally:
        leave_process(agent)
        own_context(None)
        agent.close()


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """Give the worker of a name; this one for None.

    Raises
    ------
    RpcError
        If there is none.
    """
    agent = current_agent()
    return agent.me if worker_name is None else find_worker(agent, worker_name)


def get_rpc_timeout() -> float:
    """Give the seconds that a call may take unless it says otherwise."""
    return _own().rpc_timeout


def set_rpc_timeout(seconds: float) -> None:
    """Set that for calls that begin later; 0 for no limit."""
    _own().rpc_timeout = check_timeout(seconds, "rpc_timeout")


def debug_info() -> dict[str, int]:
    """Give what this worker has at the moment: calls under way, threads, RRefs; by name."""
    return _own().debug_info()


def stats() -> list[dict[str, str | int | float]]:
    """Give what this worker has called and served.

    Returns
    -------
    list of dict
        One for each side (``"called"``, ``"served"``), peer and function: count, failed, bytes, and seconds:
        in all, of half of the calls (p50) and of all but one in a hundred (p99).
    """
    return _own().stats()


def is_available() -> bool:
    """Say whether there are remote calls; there always are."""
    return True


@dataclass(frozen=True, slots=True)
class _Entry:
    """What one worker tells the others."""

    name: str
    address: Address
    key: bytes  # of the group, from the first of them
    error: tuple[str, str]  # kind and text; empty for none
    maps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # of devices


def _enter(
    world: World,
    group: ProcessGroup,
    name: object,
    backend: object,
    rank: object,
    world_size: object,
    options: object,
) -> tuple[_Entry, Sequence[socket.socket]]:
    """Check the arguments, and listen. What is wrong is told to all, so that all raise."""
    control = world.control
    host = control.hosts[world.rank] if control is not None else world.hosts[world.rank]
    nowhere = Address(host, world.hostname, os.getpid(), "")
    shown = name if isinstance(name, str) else ""
    me = group.member("init_rpc")
    key = secrets.token_bytes(KEY_BYTES) if me == 0 else b""
    error = _wrong(group, me, name, backend, rank, world_size, options)
    if error is not None:
        return _Entry(shown, nowhere, key, error), ()
    try:
        sockets, address = listen(
            host, world.hostname, control.members[world.rank].address if control is not None else ""
        )
    except OSError as raised:
        return _Entry(shown, nowhere, key, ("rpc", f"it cannot listen: {raised}. Set SHARDWISE_IFACE.")), ()
    maps = options.device_maps if isinstance(options, RpcBackendOptions) else {}
    return _Entry(shown, address, key, ("", ""), maps), sockets


def _wrong(
    group: ProcessGroup,
    me: int,
    name: object,
    backend: object,
    rank: object,
    world_size: object,
    options: object,
) -> tuple[str, str] | None:
    """Say what is wrong with the arguments of `init_rpc`: the kind of error, and the text."""
    if not isinstance(name, str):
        return "type", f"name={name!r} is a {type(name).__name__}; wanted a str."
    if not name:
        return "value", "name='': worker name must be non-empty."
    if not _NAME.fullmatch(name):
        return "value", f"name={name!r}: worker name must match {_NAME.pattern}."
    if len(name) > _LONGEST:
        return "value", f"name of {len(name)} characters: worker name must be shorter than {_LONGEST + 1}."
    if backend is not None:
        return "type", f"backend={backend!r}; there is one backend, so leave it out."
    if options is not None and not isinstance(options, RpcBackendOptions):
        return "type", (
            f"rpc_backend_options={options!r} is a {type(options).__name__}; wanted an RpcBackendOptions."
        )
    if rank not in (-1, me):
        return "value", f"rank={rank!r}; it has place {me} in the group. Leave it out."
    if world_size not in (None, group.size):
        return "value", f"world_size={world_size!r}; the group has {group.size} ranks. Leave it out."
    return None


def _check_entries(entries: Sequence[_Entry], group: ProcessGroup) -> None:
    for each, rank in zip(entries, group.ranks, strict=True):
        kind, text = each.error
        if kind:
            raise _KINDS[kind](f"init_rpc on rank {rank} (host {each.address.hostname}): {text}")
    first: dict[str, int] = {}
    for each, rank in zip(entries, group.ranks, strict=True):
        if each.name in first:
            raise RpcError(
                f"init_rpc: worker name {each.name!r} is not unique: ranks {first[each.name]} and {rank} "
                f"have it. Put the rank into the name."
            )
        first[each.name] = rank


def _device_maps(entries: Sequence[_Entry], group: ProcessGroup) -> list[dict[int, Mapping[int, int]]]:
    """Give the device maps of all; GPUs are counted only where there is a map."""
    if not any(each.maps for each in entries):
        return [{} for _ in entries]
    count = CudaBackend().device_count()
    counts = [count] if group.size == 1 else all_gather_object(count, group)
    return check_device_maps([each.name for each in entries], [each.maps for each in entries], counts)


def _group(world: World, ranks: ProcessGroup | Communicator | Iterable[int] | None) -> ProcessGroup:
    if ranks is None:
        return world.everyone
    if isinstance(ranks, ProcessGroup):
        group = ranks
    elif isinstance(ranks, Iterable):
        group = world.group(ranks)
    else:
        group = world.group(communicator_ranks(ranks))
    if group.rank is None:
        raise RpcError(
            f"init_rpc on rank {world.rank}: it is not one of ranks={list(group.ranks)}; only these call it."
        )
    return group


def _follow_deaths(world: World, group: ProcessGroup, agent: SocketAgent) -> None:
    """Have the control plane tell of workers that are gone, those without a connection included."""
    if world.control is None:
        return
    ids = {rank: id for id, rank in enumerate(group.ranks)}
    for_news = weakref.ref(agent)  # the control plane lives longer

    def ended(rank: int, peer: Peer) -> None:
        agent = for_news()
        if agent is not None and rank in ids and not agent.is_closed:
            agent.lost(ids[rank], peer.reason or f"it has {'left' if peer.state == 'left' else 'ended'}")

    world.control.liveness.watch(ended)


def _is_thread(world: World) -> bool:
    """Say whether other ranks share this process."""
    return world.control is None and world.size > 1


def _check_fresh() -> None:
    try:
        agent = current_agent()
    except RpcError:
        return
    raise RpcError(f"init_rpc: RPC is already initialized here, as {agent.me!r}; call rpc.shutdown() before.")


def _own() -> SocketAgent:
    agent = current_agent()
    if not isinstance(agent, SocketAgent):
        raise RpcError("this context belongs to a simulation, whose workers are started and ended by it.")
    return agent
