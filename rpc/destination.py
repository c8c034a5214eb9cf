"""What ``to=`` may be: a name, an id, a `WorkerInfo`."""

from __future__ import annotations

from shardwise.backend.errors import ArgumentError, RpcError
from shardwise.rpc.agent import Agent
from shardwise.rpc.worker_info import WorkerInfo

__all__ = ["find_worker"]


def find_worker(agent: Agent, to: str | int | WorkerInfo) -> WorkerInfo:
    """Give the worker that `to` names.

    Raises
    ------
    ArgumentError
        If it is of another type.
    RpcError
        If there is no such worker.
    """
    workers = agent.workers
    if isinstance(to, WorkerInfo):
        if 0 <= to.id < len(workers) and workers[to.id] == to:
            return to
    elif isinstance(to, str):
        for worker in workers:
            if worker.name == to:
                return worker
    elif isinstance(to, int) and not isinstance(to, bool):
        if 0 <= to < len(workers):
            return workers[to]
    else:
        raise ArgumentError(
            f"to={to!r} is a {type(to).__name__}; wanted the name, the id or the WorkerInfo of a worker."
        )
    names = ", ".join(f"{worker.name} ({worker.id})" for worker in workers[:16])
    more = f" and {len(workers) - 16} more" if len(workers) > 16 else ""
    raise RpcError(f"could not find destination {to!r}; the workers are {names}{more}.")
