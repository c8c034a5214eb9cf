"""Several operations of a transport as one: each is issued when the one before has ended."""

from __future__ import annotations

from collections.abc import Generator

from shardwise.collectives.pending import Pending

__all__ = ["Chain"]


class Chain:
    """Pending: what a generator yields, one after the other.

    Parameters
    ----------
    links : generator of (Pending, bool)
        Each operation, and whether another one follows it.
    """

    __slots__ = ("_last", "_links", "_now")

    def __init__(self, links: Generator[tuple[Pending, bool], None, None]) -> None:
        self._links = links
        self._now, more = next(links)
        self._last = not more

    @property
    def open(self) -> bool:
        """Whether more may be issued: by a link that is to come, or by the one under way."""
        return not self._last or self._now.open

    def test(self) -> bool:
        while self._now.test():
            link = next(self._links, None)
            if link is None:
                return True
            self._now, more = link
            self._last = not more
        return False

    def pause(self, waited: float, expected: float) -> None:
        self._now.pause(waited, expected)
