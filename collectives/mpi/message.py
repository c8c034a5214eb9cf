"""Messages of MPI whose length is known: one that comes with another length is said to be wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from shardwise.backend.errors import CollectiveMismatchError

if TYPE_CHECKING:  # importing it for real starts MPI
    from mpi4py import MPI

__all__ = ["Messages", "Watch"]

# Called in a wait, with the seconds waited and expected.
Watch = Callable[[float, float], None]


class Messages:
    """Pending: receives of known length, and sends.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    receives : list of (MPI.Request, bytes wanted, sender)
    sends : list of MPI.Request
    watch : callable
        How to wait.
    mismatch : callable
        Makes the message of an error of (sender, what came), such as ``(1, "8 bytes in place of 12")``.
    """

    __slots__ = ("_mismatch", "_mpi", "_receives", "_sends", "_status", "_watch")

    open = False

    def __init__(
        self,
        mpi: ModuleType,
        receives: list[tuple[MPI.Request, int, int]],
        sends: list[MPI.Request],
        watch: Watch,
        mismatch: Callable[[int, str], str],
    ) -> None:
        self._mpi = mpi
        self._receives = receives
        self._sends = sends
        self._watch = watch
        self._mismatch = mismatch
        self._status: MPI.Status = mpi.Status()

    def test(self) -> bool:
        while self._receives:
            request, wanted, sender = self._receives[-1]
            try:
                if not request.Test(self._status):
                    return False
            except self._mpi.Exception as error:
                if error.Get_error_class() == self._mpi.ERR_TRUNCATE:
                    raise CollectiveMismatchError(self._mismatch(sender, "a longer message")) from error
                raise
            got = self._status.Get_count(self._mpi.BYTE)
            if got != wanted:
                raise CollectiveMismatchError(self._mismatch(sender, f"{got} bytes in place of {wanted}"))
            self._receives.pop()
        while self._sends:
            if not self._sends[-1].Test():
                return False
            self._sends.pop()
        return True

    def pause(self, waited: float, expected: float) -> None:
        self._watch(waited, expected)
