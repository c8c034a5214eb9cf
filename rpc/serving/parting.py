"""The end of an RPC group: nobody goes while somebody still calls."""

from __future__ import annotations

import json
import time
from typing import Protocol

from shardwise.backend.errors import RpcTimeoutError
from shardwise.rpc.agent import Agent
from shardwise.rpc.serving.gather import gather_bytes

__all__ = ["Parting", "part_together"]

_FIRST_PAUSE, _LAST_PAUSE = 0.001, 0.05


class Parting(Agent, Protocol):
    """What an agent shows to whoever ends it."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """Requests that have come, those of them that have ended, and own ones that wait for an answer."""

    def part(self) -> None:
        """Take the end of a connection for no death any more."""

    def run_partings(self, timeout: float | None) -> None:
        """Call what `before_shutdown` was given."""


def part_together(agent: Parting, timeout: float) -> None:
    """Wait until all workers have come here and all calls of the group have ended, those of calls included.

    The worker goes on serving meanwhile.

    Parameters
    ----------
    agent : Parting
    timeout : float
        Seconds, 0 for no limit.

    Raises
    ------
    RpcTimeoutError
        If it is not so in time.
    PeerDiedError
        If a worker has died.
    """
    deadline = time.monotonic() + timeout if timeout else None
    _round(agent, deadline, (0, 0, 0))
    agent.run_partings(_left(deadline) or None)
    before = None
    pause = _FIRST_PAUSE
    while True:
        # A call that is on its way counts where it was made, so all is quiet if nobody had anything to do,
        # and nothing has come to anybody until all had said so once more.
        found = _round(agent, deadline, agent.counts)
        if before == found and all(came == ended and not waiting for came, ended, waiting in found.values()):
            agent.part()
            return
        before = found
        time.sleep(pause)
        pause = min(_LAST_PAUSE, 2 * pause)


def _round(
    agent: Parting, deadline: float | None, counts: tuple[int, int, int]
) -> dict[str, tuple[int, int, int]]:
    found = gather_bytes(agent, json.dumps(counts).encode(), timeout=_left(deadline))
    return {name: tuple(json.loads(data)) for name, data in found.items()}


def _left(deadline: float | None) -> float:
    if deadline is None:
        return 0.0
    left = deadline - time.monotonic()
    if left <= 0:
        raise RpcTimeoutError(
            "shutdown: not all workers came, or not all calls ended, in time; this worker ends all the same."
        )
    return left
