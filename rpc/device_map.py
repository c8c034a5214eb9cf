"""Arrays on GPUs, and on which GPU of another worker they arrive. They go by way of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardwise.backend import Array, get_backend
from shardwise.backend.errors import ArgumentError, RpcError
from shardwise.backend.select import backend_of
from shardwise.rpc.agent import Outgoing

__all__ = ["DeviceMaps", "check_device_maps", "reduce_device_array"]


class DeviceMaps:
    """Where arrays of one worker go; a part of its agent.

    Parameters
    ----------
    me : int
        Id of this worker.
    maps : sequence of mapping of int to mapping of int to int
        Of each worker, for the id of another: on which GPU there arrays from each of its own arrive.
    """

    def __init__(self, me: int, maps: Sequence[Mapping[int, Mapping[int, int]]]) -> None:
        self._there = maps[me]
        self._back = [
            {there: here for here, there in of.get(me, {}).items()} for of in maps
        ]  # what others send here goes back the same way

    def target(self, to: int, index: int, answers: bool) -> int | None:
        """Give the GPU of worker `to` for an array on GPU `index` here; None if nothing is said of it."""
        return (self._back[to] if answers else self._there.get(to, {})).get(index)


def check_device_maps(
    names: Sequence[str],
    maps: Sequence[Mapping[str, Mapping[int, int]]],
    counts: Sequence[int],
) -> list[dict[int, Mapping[int, int]]]:
    """Give the device maps of all workers by id.

    Parameters
    ----------
    names : sequence of str
    maps : sequence of mapping of str to mapping of int to int
        As each worker has given them.
    counts : sequence of int
        How many GPUs each worker has.

    Raises
    ------
    ArgumentError
        If a map names no worker, or a GPU that is not there. Alike wherever it is called.
    """
    found: list[dict[int, Mapping[int, int]]] = []
    for name, of, count in zip(names, maps, counts, strict=True):
        by_id: dict[int, Mapping[int, int]] = {}
        for to, pairs in of.items():
            if to not in names:
                raise ArgumentError(
                    f"Node {name} has a device map to {to!r}, which is no worker; there are "
                    f"{', '.join(names)}."
                )
            there = counts[names.index(to)]
            for source, target in pairs.items():
                if source >= count or target >= there:
                    raise ArgumentError(
                        f"Node {name} has invalid device indices in device map {dict(pairs)} to {to}: {name} "
                        f"has {count} GPUs, {to} has {there}; indices count from 0."
                    )
            by_id[names.index(to)] = pairs
        found.append(by_id)
    return found


def reduce_device_array(x: Array, outgoing: Outgoing) -> Any:
    """Send an array on a GPU by way of the host, to the GPU that the device map says."""
    backend = backend_of(x)
    index = int(backend.device_of(x).rpartition(":")[2])
    agent, to = outgoing.agent, outgoing.to
    there = agent.workers[to].name
    maps = agent.parts.get(DeviceMaps)
    target = maps.target(to, index, outgoing.reply_to is not None) if maps is not None else None
    if target is None:
        what = "an answer" if outgoing.reply_to is not None else "a call"
        raise RpcError(
            f"an array on cuda:{index} of {agent.me.name} is in {what} to {there}, and no device map says "
            f"on which GPU it arrives there. Give the worker that calls RpcBackendOptions(device_maps=...), "
            f"or send what is on the host."
        )
    return _device_array, (backend.to_host(x), target)


def _device_array(host: Array, index: int) -> Array:
    return get_backend(f"cuda:{index}").asarray(host)
