"""Actors: a value whose methods run one at a time, the calls of each worker in the order they were made."""

from __future__ import annotations

import contextvars
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from shardwise.rpc.future import Future

__all__ = ["Mailbox", "forward"]


class Letter(NamedTuple):
    """A call that waits: what to do, in which context, and who hears of the result."""

    call: Callable[[], object]
    context: contextvars.Context
    answer: Future[Any]


class Mailbox:
    """The calls to one actor, put in order for each caller, and run one at a time.

    Parameters
    ----------
    run : callable
        ``run(task)`` calls ``task()`` in a thread of the pool.
    """

    def __init__(self, run: Callable[[Callable[[], None]], None]) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._next: defaultdict[int, int] = defaultdict(int)
        self._early: defaultdict[int, dict[int, Letter | None]] = defaultdict(dict)  # None: it never comes
        self._ready: deque[Letter] = deque()
        self._busy = False

    def put(self, src: int, number: int, call: Callable[[], object]) -> Future[Any]:
        """Have `call` run when it is its turn, in the context of now; gives the future of its result.

        Parameters
        ----------
        src : int
            Who calls.
        number : int
            The how-manieth of its calls this is, from 0.
        call : callable
        """
        answer: Future[Any] = Future(self._run)
        self._take(src, number, Letter(call, contextvars.copy_context(), answer))
        return answer

    def skip(self, src: int, number: int) -> None:
        """Note that a call will not come."""
        self._take(src, number, None)

    def _take(self, src: int, number: int, letter: Letter | None) -> None:
        with self._lock:
            early = self._early[src]
            if number < self._next[src]:
                return
            early[number] = letter
            while self._next[src] in early:
                due = early.pop(self._next[src])
                self._next[src] += 1
                if due is not None:
                    self._ready.append(due)
            if self._busy or not self._ready:
                return
            self._busy = True
        self._run(self._work)

    def _work(self) -> None:
        """Run what is ready, one call after the other."""
        while True:
            with self._lock:
                if not self._ready:
                    self._busy = False
                    return
                letter = self._ready.popleft()
            letter.context.run(_answer, letter)


def _answer(letter: Letter) -> None:
    try:
        result = letter.call()
    except BaseException as error:
        letter.answer.offer_exception(error)
        return
    if isinstance(result, Future):  # of a function under async_execution: the next call need not wait for it
        result.on_done(lambda done: forward(done, letter.answer))
    else:
        letter.answer.offer_result(result)


def forward(done: Future[Any], to: Future[Any]) -> None:
    """Complete a future as another was."""
    error = done.exception()
    if error is None:
        to.offer_result(done.value())
    else:
        to.offer_exception(error)
