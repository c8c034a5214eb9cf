"""What the layers above and below share about an operation under way."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Finished", "Pending"]


class Pending(Protocol):
    """One operation under way in a transport."""

    @property
    def open(self) -> bool:
        """Whether it may yet issue communication.

        The lane issues nothing behind an open operation, so that all ranks issue all in the same order.
        """

    def test(self) -> bool:
        """Advance as far as possible without waiting; True once finished, and from then on.

        Raises
        ------
        CollectiveError
            If the operation failed.
        """

    def pause(self, waited: float, expected: float) -> None:
        """Do nothing for a moment that suits a rank which waits for this operation.

        Parameters
        ----------
        waited : float
            Seconds since the wait began.
        expected : float
            Seconds that such an operation takes when all ranks have arrived.

        Raises
        ------
        CollectiveError
            If it has become certain that the operation cannot end (a rank has left or failed).
        """


class Finished:
    """Pending, and done: what needs no waiting."""

    open = False

    def test(self) -> bool:
        """Say that it is done."""
        return True

    def pause(self, waited: float, expected: float) -> None:
        """Return at once."""
