"""Which agent the code that runs now belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shardwise.backend.errors import RpcError
from shardwise.rpc.agent import Agent

__all__ = ["current_agent", "entered_agent", "leave_process", "own_context", "own_process"]

_current: ContextVar[Agent | None] = ContextVar("shardwise_rpc_agent", default=None)

# The agent of a process is a fact about it: all its threads share it. Ranks that are threads, and handlers,
# have theirs in their context.
_process: list[Agent] = []


def current_agent() -> Agent:
    """Give the agent of this context, else that of the process.

    Raises
    ------
    RpcError
        If there is none.
    """
    agent = _current.get()
    if agent is None and _process:
        agent = _process[-1]
    if agent is None:
        raise RpcError(
            "RPC has not been initialized, or was shut down; call rpc.init_rpc(name) on all workers"
        )
    return agent


@contextmanager
def entered_agent(agent: Agent | None) -> Iterator[None]:
    """Let a block of code belong to `agent`; None for that of the process, if there is one."""
    token = _current.set(agent)
    try:
        yield
    finally:
        _current.reset(token)


def own_context(agent: Agent | None) -> None:
    """Make `agent` that of this context from now on, as for a rank that is a thread; None to leave it."""
    _current.set(agent)


def own_process(agent: Agent) -> None:
    """Make `agent` that of the process."""
    _process.append(agent)


def leave_process(agent: Agent) -> None:
    """Let the process go on without `agent`; nothing happens if it was not its own."""
    if agent in _process:
        _process.remove(agent)
