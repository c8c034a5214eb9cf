"""How fast ranks talk: our messages and collectives, and MPI alone beside them. All ranks take part."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives import (
    World,
    all_reduce,
    barrier,
    empty_symmetric,
    recv,
    send,
    shares_memory,
)
from shardwise.launch.checks.finding import Finding, ok, warn
from shardwise.launch.checks.unit import rate as spell_rate
from shardwise.launch.checks.unit import time as spell_time

__all__ = ["judge_pair", "judge_sum", "measure_speed"]

_SMALL, _LARGE = 1 << 10, 16 << 20  # bytes
_OFTEN, _SELDOM = 100, 5
_MOST_HOSTS = 8  # that rank 0 exchanges messages with
_SLOW_LATENCY, _SLOW_RATE = 1e-3, 50e6  # seconds; bytes per second


def measure_speed(world: World, hosts: Sequence[str], *, quick: bool, crowded: bool) -> list[Finding]:
    """Time messages between rank 0 and others, and sums over all ranks. All ranks of the world call it.

    Parameters
    ----------
    world : World
    hosts : sequence of str
        Of each rank; equal ones share memory.
    quick : bool
        Leave the large arrays out.
    crowded : bool
        Whether ranks share cores, so that slow is no news.

    Returns
    -------
    list of Finding
        Of what this rank has measured; rank 0's count.
    """
    sizes = [(_SMALL, _OFTEN)] if quick else [(_SMALL, _OFTEN), (_LARGE, _SELDOM)]
    found = []
    leaders = [hosts.index(host) for host in dict.fromkeys(hosts) if host != hosts[0]]
    near = [rank for rank, host in enumerate(hosts) if rank and host == hosts[0]][:1]
    for partner in (*near, *leaders[:_MOST_HOSTS]):
        times = [_message(world.rank, partner, size, often) for size, often in sizes]
        between = "of one host" if hosts[partner] == hosts[0] else "of two hosts"
        found.append(
            judge_pair(f"ranks 0 and {partner} {between}", times, crowded=crowded, far=partner in leaders)
        )
    shared = shares_memory()
    carrier = "shared memory" if shared else world.transport.name
    sums = [_collective(np.zeros, _ours, size, often) for size, often in sizes]
    found.append(judge_sum(f"all_reduce, {carrier}", world.size, sums, crowded=crowded))
    if shared:
        direct = [_collective(empty_symmetric, _ours, size, often) for size, often in sizes]
        found.append(judge_sum("all_reduce, symmetric memory", world.size, direct, crowded=crowded))
    if world.transport.name == "mpi":
        alone = [_collective(np.zeros, _mpi(), size, often) for size, often in sizes]
        found.append(judge_sum("all_reduce, MPI alone", world.size, alone, crowded=True))
    return found


def judge_pair(name: str, times: Sequence[float], *, crowded: bool, far: bool) -> Finding:
    """Say whether messages between two ranks are as fast as they should be.

    Parameters
    ----------
    name : str
    times : sequence of float
        Seconds one way, of 1 KiB and perhaps of 16 MiB.
    crowded : bool
        Whether ranks share cores.
    far : bool
        Whether they are on two hosts.
    """
    what = f"1 KiB in {spell_time(times[0])}"
    slow = times[0] > _SLOW_LATENCY
    if len(times) > 1:
        speed = _LARGE / times[1]
        what += f", 16 MiB in {spell_time(times[1])} ({spell_rate(speed)})"
        slow = slow or speed < _SLOW_RATE
    if slow and far:
        fix = "see that MPI uses the fast network (ucx_info, fi_info), and SHARDWISE_IFACE names it"
        return warn(name, f"{what}: slow for a network between hosts", fix)
    if slow and not crowded:
        fix = "see who else computes on this host (top), and that ranks have cores of their own"
        return warn(name, f"{what}: slow for one host", fix)
    return ok(name, what)


def judge_sum(name: str, ranks: int, times: Sequence[float], *, crowded: bool) -> Finding:
    """Say whether a sum over all ranks is as fast as it should be; `times` as for `judge_pair`."""
    what = f"1 KiB in {spell_time(times[0])}"
    if len(times) > 1:
        what += f", 16 MiB in {spell_time(times[1])} ({spell_rate(_LARGE / times[1])})"
    if times[0] > ranks * _SLOW_LATENCY and not crowded:
        fix = "see who else computes on these hosts (top), and that ranks have cores of their own"
        return warn(name, f"{what}: slow", fix)
    return ok(name, what)


def _message(mine: int, partner: int, size: int, often: int) -> float:
    """Send there and back; gives the median seconds one way on the two, 0 on the others."""
    barrier()
    if mine not in (0, partner):
        return 0.0
    x = np.zeros(size, np.uint8)
    times = []
    for _ in range(often):
        began = time.perf_counter()
        if mine == 0:
            send(x, partner)
            recv(x.shape, x.dtype, partner, out=x)
        else:
            recv(x.shape, x.dtype, 0, out=x)
            send(x, 0)
        times.append(time.perf_counter() - began)
    return statistics.median(times) / 2


def _collective(
    make: Callable[[int, type[np.float32]], Array],
    run: Callable[[Array, Array], None],
    size: int,
    often: int,
) -> float:
    """Give the median seconds of a sum of float32 arrays of so many bytes."""
    x, out = make(size // 4, np.float32), make(size // 4, np.float32)
    run(x, out)  # connects, and touches the pages
    times = []
    for _ in range(often):
        barrier()
        began = time.perf_counter()
        run(x, out)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _ours(x: Array, out: Array) -> None:
    all_reduce(x, out=out)


def _mpi() -> Callable[[Array, Array], None]:
    from mpi4py import MPI

    return MPI.COMM_WORLD.Allreduce
