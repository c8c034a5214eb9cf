"""Waiting on the host for a place in a stream."""

from __future__ import annotations

import time

from shardwise.backend.stream_protocol import Event

__all__ = ["Until"]

_SHORTEST, _LONGEST, _PART = 20e-6, 1e-3, 0.05


class Until:
    """Pending: a stream comes to an event. Asks and sleeps, so that the wait can end otherwise too.

    Parameters
    ----------
    event : Event or None
        None is there already.
    """

    __slots__ = ("_event",)

    open = False

    def __init__(self, event: Event | None) -> None:
        self._event = event

    def test(self) -> bool:
        return self._event is None or self._event.done

    def pause(self, waited: float, expected: float) -> None:
        time.sleep(min(_LONGEST, max(_SHORTEST, _PART * waited)))
