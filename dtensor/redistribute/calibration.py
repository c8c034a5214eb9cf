"""What links cost on these machines: measured once, kept in a file, and read by all ranks alike.

Ranks that plan by different numbers may plan different steps, and hang. So measured numbers count only after
`load_link_costs`, which all ranks call: rank 0 reads the file, and the others get what it has read.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from shardwise.backend.errors import ArgumentError
from shardwise.backend.kernels.cache import candidate_roots
from shardwise.collectives import ProcessGroup, all_gather, barrier, broadcast_object, get_world, implicit
from shardwise.dtensor.redistribute.cost import LinkCosts, set_link_costs

__all__ = ["load_link_costs", "measure_link_costs", "save_link_costs"]

_FILE = "links.json"
_SMALL, _OFTEN = 64, 100  # bytes; times
_LARGE, _SELDOM = 4 << 20, 7
_LEAST = 1e-9  # seconds: what is measured as less, or as nothing, is this


def measure_link_costs(*, quick: bool = False) -> LinkCosts:
    """Time gathers between ranks of one host, and between hosts. All ranks call it, and get the same.

    Parameters
    ----------
    quick : bool
        Take fewer turns.

    Returns
    -------
    LinkCosts
        What could not be measured, since there is one rank or one host, is what it is by default.

    Notes
    -----
    A few hundred gathers of 64 bytes, and seven of 4 MiB for each rank.
    """
    hosts = get_world().hosts
    by_host: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        by_host.setdefault(host, []).append(rank)
    near = next((ranks for ranks in by_host.values() if len(ranks) > 1), [])
    leaders = [ranks[0] for ranks in by_host.values()]
    found: dict[str, float] = {}
    with implicit():
        for prefix, ranks in (("", near), ("far_", leaders)):
            if len(ranks) > 1:
                values = _measured(tuple(ranks), 5 if quick else 1)
                found |= {f"{prefix}{name}": value for name, value in values.items()}
    return LinkCosts(**found)


def save_link_costs(costs: LinkCosts, path: str | os.PathLike[str] | None = None) -> Path:
    """Write costs to a file, by default in the user's cache folder; one rank calls it.

    Returns
    -------
    Path
        Where they are.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    target = _default_path() if path is None else Path(path)
    if path is None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(asdict(costs), indent=1) + "\n", encoding="utf-8")
        fresh.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    return target


def load_link_costs(path: str | os.PathLike[str] | None = None) -> LinkCosts:
    """Plan by the costs in a file, from here on in this context. All ranks call it.

    Parameters
    ----------
    path : path, optional
        On rank 0's host; by default where ``shardwise doctor -n 2 --calibrate`` has left it.

    Returns
    -------
    LinkCosts
        The same on all ranks.

    Raises
    ------
    ArgumentError
        On all ranks, if there is no such file, or something else in it.

    Notes
    -----
    One small broadcast.
    """
    world = get_world()
    told: dict[str, float] | str | None = None
    if world.rank == 0:
        told = _read(_default_path() if path is None else Path(path))
    with implicit():
        said = broadcast_object(told)
    if not isinstance(said, dict):
        raise ArgumentError(f"load_link_costs: {said}; make one by shardwise doctor -n 2 --calibrate.")
    costs = LinkCosts(**said)
    set_link_costs(costs)
    return costs


def _read(path: Path) -> dict[str, float] | str:
    """Give what a file says, or what is wrong with it."""
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    except ValueError:
        return f"{path} is not JSON"
    names = {field.name for field in fields(LinkCosts)}
    if not isinstance(said, dict) or said.keys() != names:
        return f"{path} has not the numbers {', '.join(sorted(names))}"
    if not all(isinstance(value, float | int) and 0 < value < float("inf") for value in said.values()):
        return f"{path} has numbers that are not above 0"
    return {name: float(value) for name, value in said.items()}


def _default_path() -> Path:
    # The first root lies beside the package, and goes with it.
    return candidate_roots()[1] / _FILE


def _measured(ranks: tuple[int, ...], hurry: int) -> dict[str, float]:
    """Time the first two of some ranks, then all of them; the same is given to all ranks of the world."""
    world = get_world()
    small, large, many = 0.0, 0.0, 0.0
    if world.rank in ranks[:2]:
        pair = world.group(ranks[:2])
        small = _seconds(pair, _SMALL, _OFTEN // hurry)
        large = _seconds(pair, _LARGE, 1 + _SELDOM // hurry)
    if world.rank in ranks and len(ranks) > 2:
        many = _seconds(world.group(ranks), _SMALL, _OFTEN // hurry)
    small, large, many = broadcast_object((small, large, many), src=ranks[0])
    hop = (many - small) / (len(ranks) - 2) if many else small / 10
    hop = max(hop, _LEAST)
    return {
        "latency": max(small - hop, _LEAST),
        "hop": hop,
        "bandwidth": _LARGE / max(large - small, _LEAST),
    }


def _seconds(group: ProcessGroup, nbytes: int, often: int) -> float:
    x = np.zeros(nbytes, np.uint8)
    out = np.zeros(nbytes * group.size, np.uint8)
    all_gather(x, group, out=out)  # connects, and touches the pages
    took = []
    for _ in range(often):
        barrier(group)
        began = time.perf_counter()
        all_gather(x, group, out=out)
        took.append(time.perf_counter() - began)
    return statistics.median(took)
