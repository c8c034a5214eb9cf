"""What the tests of remote objects run on simulated workers."""

from __future__ import annotations

import gc
from collections import defaultdict
from typing import Any

from shardwise import rpc
from shardwise.rpc.current import current_agent
from shardwise.rpc.rref_table import RRefTable

EMPTY = {
    "num_owner_rrefs": 0,
    "num_user_rrefs": 0,
    "num_forks": 0,
    "num_pending_users": 0,
    "num_pending_children": 0,
    "num_pending_errands": 0,
}

stores: defaultdict[int, dict[Any, Any]] = defaultdict(dict)  # by worker: what functions leave there


def here() -> int:
    """The worker that this runs on."""
    return current_agent().me.id


def store() -> dict[Any, Any]:
    """What this worker keeps."""
    return stores[here()]


def counts(simulation: rpc.Simulation) -> list[dict[str, int]]:
    """How many values, handles and open questions each worker has, once all is still."""
    simulation.drain()
    found = [agent.parts[RRefTable].debug_info() for agent in simulation.agents]
    if found != [EMPTY] * len(found) or Box.alive:  # what only a collection finds is let go of too
        gc.collect()
        simulation.drain()
        found = [agent.parts[RRefTable].debug_info() for agent in simulation.agents]
    return found


class Box:
    """A value that is counted; its copies are not."""

    alive = 0

    def __init__(self, name: Any) -> None:
        self.name = name
        Box.alive += 1

    def __del__(self) -> None:
        Box.alive -= 1

    def __reduce__(self) -> Any:
        return Copy, (self.name,)

    def tell(self) -> Any:
        return self.name

    def where(self) -> int:
        return here()


class Copy:
    """What arrives of a box."""

    def __init__(self, name: Any) -> None:
        self.name = name


def keep(key: Any, rref: Any) -> None:
    store()[key] = rref


def take(key: Any) -> Any:
    return store()[key]


def forget(key: Any) -> None:
    store().pop(key, None)


def name_of(rref: Any) -> Any:
    return rref.to_here().name


def pass_on(rref: Any, path: list[int], key: Any) -> Any:
    """Hand a reference from worker to worker; the last one keeps it."""
    if not path:
        keep(key, rref)
        return rref
    return rpc.remote(path[0], pass_on, args=(rref, path[1:], key)).to_here()


def fail(message: str) -> None:
    raise ValueError(message)
