"""Control messages that act exactly once, whatever the way loses, repeats or turns round."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from shardwise.backend.errors import RpcTimeoutError
from shardwise.rpc.agent import Agent, Request
from shardwise.rpc.future import Future

__all__ = ["Courier"]

_PATIENCE = 1.0  # seconds until a message is sent again; each further try waits twice as long
_MOST = 4.0

Act = Callable[..., object]


class Courier:
    """Tells other workers things, each of which takes effect once.

    A message is sent until it was acknowledged. The receiver knows it again by its number, and forgets the
    numbers below the lowest that the sender still waits for, which comes with each message.

    Parameters
    ----------
    agent : Agent
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._acts: dict[str, Act] = {}
        self._lock = threading.Lock()
        self._next = 0
        self._open: defaultdict[int, dict[int, Future[None]]] = defaultdict(dict)  # by receiver, in order
        self._seen: defaultdict[int, set[int]] = defaultdict(set)  # by sender
        self._low: defaultdict[int, int] = defaultdict(int)
        self.on_quiet: Callable[[], None] = lambda: None
        agent.on("errand", self._arrive, "io")

    def on(self, errand: str, act: Act) -> None:
        """Have ``act(src, *arguments)`` called on the io thread for each message of this name.

        It must be quick. An error that it raises becomes that of the sender's future.
        """
        self._acts[errand] = act

    def tell(self, to: int, errand: str, *arguments: object) -> Future[None]:
        """Send a message; the future is done when it has taken effect, and fails if the receiver has died."""
        told: Future[None] = Future(self._agent.run)
        with self._lock:
            number = self._next
            self._next += 1
            self._open[to][number] = told
        self._try(to, number, errand, arguments, told, _PATIENCE)
        return told

    @property
    def under_way(self) -> int:
        """Number of messages that were not acknowledged yet."""
        return sum(map(len, list(self._open.values())))

    def _try(
        self, to: int, number: int, errand: str, arguments: Any, told: Future[None], patience: float
    ) -> None:
        with self._lock:
            low = next(iter(self._open[to]))
        try:
            answer = self._agent.send(
                to, "errand", (number, low, errand, arguments), timeout=patience, blocking=False
            )
        except Exception as error:  # the receiver is known to be dead, or this agent has stopped
            self._end(to, number, told, error)
            return

        def answered(done: Future[Any]) -> None:
            error = done.exception()
            if isinstance(error, RpcTimeoutError):
                self._try(to, number, errand, arguments, told, min(2 * patience, _MOST))
            else:
                self._end(to, number, told, error)

        answer.on_done(answered)

    def _end(self, to: int, number: int, told: Future[None], error: BaseException | None) -> None:
        with self._lock:
            self._open[to].pop(number, None)
        if error is None:
            told.offer_result(None)
        else:
            told.offer_exception(error)
        if not self.under_way:
            self.on_quiet()

    def _arrive(self, request: Request) -> None:
        number, low, errand, arguments = request.payload
        src = request.src
        with self._lock:
            seen = self._seen[src]
            if number < self._low[src] or number in seen:
                return
            seen.add(number)
            if low > self._low[src]:
                self._low[src] = low
                self._seen[src] = {each for each in seen if each >= low}
        self._acts[errand](src, *arguments)
