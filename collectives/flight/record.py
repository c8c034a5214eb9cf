"""The flight record of a rank: its last operations, what they say when something hangs, and where they go."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from shardwise.collectives.flight.account import Account, Call, account_of
from shardwise.collectives.flight.inquiry import Inquiry, Tell
from shardwise.collectives.flight.stack import stacks
from shardwise.collectives.flight.verdict import fold_stacks, verdict
from shardwise.collectives.ledger import Ledger, Record

__all__ = ["Flight", "write_flight"]

_log = logging.getLogger(__name__)

_PATIENCE = 2.0  # seconds for the others to answer
_SHORT_PATIENCE = 0.5  # where the user waits for a time of their own


class Flight:
    """What one rank has done, told to whom it concerns.

    Parameters
    ----------
    rank, size : int
    ledger : Ledger
    issued : callable
        Gives how many operations this rank has issued on a group, from its name.
    members : callable
        Gives the global ranks that take part in an operation.
    thread : int or None
        The ident of the thread that is this rank; None for a process.
    folder : Path or None
        Where a verdict leaves the record of each rank.
    connect : callable
        Makes the inquiry of what tells this rank's account, and of what keeps its record.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        ledger: Ledger,
        issued: Callable[[str], int],
        members: Callable[[Record], Sequence[int]],
        thread: int | None,
        folder: Path | None,
        connect: Callable[[Tell, Callable[[], None]], Inquiry],
    ) -> None:
        self._rank = rank
        self._size = size
        self._ledger = ledger
        self._issued = issued
        self._members = members
        self._thread = thread
        self._folder = folder
        self._stuck = ""  # where it was when it lost patience; it is elsewhere when others ask
        self._inquiry = connect(self.account, self.keep)

    def account(self, group: str, seq: int, with_stacks: bool) -> Account:
        """Say where this rank is, seen from operation `seq` of `group`."""
        text = (stacks(self._thread) or self._stuck) if with_stacks else ""
        return account_of(self._ledger.records, group, seq, self._issued(group), text)

    def overdue(self, record: Record, timeout: float, asked: bool) -> str:
        """Say why an operation of this rank has not ended in time: ask all ranks.

        Parameters
        ----------
        record : Record
        timeout : float
            Seconds that it was waited for.
        asked : bool
            Whether the user has asked for that time: then it is no verdict, and there are no stacks.
        """
        if not asked:
            self._stuck = stacks(self._thread)
        patience = min(_PATIENCE, max(_SHORT_PATIENCE, timeout)) if asked else _PATIENCE
        findings = self._inquiry.inquire(record.group, record.seq, patience, not asked)
        said = verdict(Call.of(record), self._rank, self._members(record), timeout, findings)
        where = fold_stacks(findings)
        return f"{said}\n{where}" if where else said

    def keep(self) -> None:
        """Write this rank's record, where the user has said where."""
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                write_flight(self._folder / f"flight-{self._rank}.json", self._rank, self._size, self._ledger)
            except OSError as error:
                _log.warning("rank %d cannot write its flight record: %s", self._rank, error)


def write_flight(path: Path, rank: int, size: int, ledger: Ledger) -> None:
    """Write a ledger's ring as JSON, whole or not at all; times in seconds since 1970."""
    offset = time.time() - time.perf_counter()
    operations = [
        {
            "op": record.op,
            "seq": record.seq,
            "group": record.group,
            "size": record.size,
            "dtype": str(record.dtype),
            "shape": list(record.shape),
            "how": record.how,
            "source": record.source,
            "implicit": record.implicit,
            "start": record.start + offset,
            "end": None if math.isnan(record.end) else record.end + offset,
        }
        for record in ledger.records
    ]
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps({"rank": rank, "world_size": size, "operations": operations}, indent=1))
    new.replace(path)
