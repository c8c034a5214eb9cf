"""What is pending while requests of MPI are: those of one phase, or of several."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from shardwise.collectives.mpi.message import Watch

if TYPE_CHECKING:  # importing it for real starts MPI
    from mpi4py import MPI

__all__ = ["Issued", "Phase", "Phased"]

# Requests to complete, and whether more communication follows.
Phase = tuple["list[MPI.Request]", bool]


class Issued:
    """Pending: requests that are all there is to wait for, then perhaps some work on what came."""

    __slots__ = ("_requests", "_then", "_watch")

    open = False

    def __init__(
        self, requests: list[MPI.Request], watch: Watch, then: Callable[[], object] | None = None
    ) -> None:
        self._requests = requests
        self._watch = watch
        self._then = then

    def test(self) -> bool:
        requests = self._requests
        while requests:
            if not requests[-1].Test():
                return False
            requests.pop()
        if self._then is not None:
            then, self._then = self._then, None
            then()
        return True

    def pause(self, waited: float, expected: float) -> None:
        self._watch(waited, expected)


class Phased:
    """Pending: communication in several phases, each issued when the one before has ended."""

    __slots__ = ("_phases", "_requests", "_watch", "open")

    def __init__(self, phases: Generator[Phase, None, None], watch: Watch) -> None:
        self._phases = phases
        self._watch = watch
        self._requests, self.open = next(phases)

    def test(self) -> bool:
        while True:
            requests = self._requests
            while requests:
                if not requests[-1].Test():
                    return False
                requests.pop()
            phase = next(self._phases, None)
            if phase is None:
                self.open = False
                return True
            self._requests, self.open = phase

    def pause(self, waited: float, expected: float) -> None:
        self._watch(waited, expected)
