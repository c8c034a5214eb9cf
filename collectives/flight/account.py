"""What a rank says of itself when it is asked why an operation does not end."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from shardwise.collectives.control import JSON
from shardwise.collectives.ledger import Record

__all__ = ["Account", "Call", "Condition", "Finding", "account_of"]

Condition: TypeAlias = Literal["answered", "silent", "stopped", "held", "left", "failed", "dead"]


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of one rank, at some moment.

    Attributes
    ----------
    op : str
    seq : int
        Its number in its group.
    group : str
    what : str
        Dtype and shape, such as ``float32[3]``.
    source : str
        ``"path:line"`` of who called it.
    began : float
        Seconds since it was issued.
    ended : float or None
        Seconds since it ended; None while it runs.
    """

    op: str
    seq: int
    group: str
    what: str
    source: str
    began: float
    ended: float | None

    @staticmethod
    def of(record: Record) -> Call:
        """Describe a record now."""
        now = time.perf_counter()
        return Call(
            record.op,
            record.seq,
            record.group,
            f"{record.dtype}{list(record.shape)}",
            record.source,
            now - record.start,
            None if math.isnan(record.end) else now - record.end,
        )

    def __str__(self) -> str:
        return f"{self.op} #{self.seq} of {self.group}"


@dataclass(frozen=True, slots=True)
class Account:
    """What one rank says.

    Attributes
    ----------
    issued : int
        How many operations it has issued on the group in question.
    asked : Call or None
        That of the number in question, unless it has not come to it, or came to it long ago.
    current : Call or None
        The oldest one that runs.
    last : Call or None
        The last one that it has issued.
    stacks : str
        Of its threads; empty where they were not asked for.
    """

    issued: int
    asked: Call | None
    current: Call | None
    last: Call | None
    stacks: str = ""

    def encode(self) -> Mapping[str, JSON]:
        """Give it as JSON values."""
        return asdict(self)

    @staticmethod
    def decode(body: Mapping[str, JSON]) -> Account:
        """Undo `encode`.

        Raises
        ------
        ValueError
            If this is no account.
        """
        issued, stacks = body.get("issued"), body.get("stacks")
        if not isinstance(issued, int) or not isinstance(stacks, str):
            raise ValueError(f"no account: {body}")
        calls = [_decoded(body.get(name)) for name in ("asked", "current", "last")]
        return Account(issued, calls[0], calls[1], calls[2], stacks)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one rank.

    Attributes
    ----------
    rank : int
    condition : str
        "answered", or why there is no account: "silent" (nothing is known but that), "stopped" (by a signal),
        "held" (compiled code has its interpreter), or its end: "left", "failed", "dead".
    account : Account or None
    seconds : float
        Since it was last heard, or since its end.
    reason : str
        Of its end.
    stacks : str
    """

    rank: int
    condition: Condition
    account: Account | None = None
    seconds: float = 0.0
    reason: str = ""
    stacks: str = ""


def account_of(records: Sequence[Record], group: str, seq: int, issued: int, stacks: str) -> Account:
    """Give the account of a rank.

    Parameters
    ----------
    records : sequence of Record
        Its last ones.
    group, seq
        Which operation is in question.
    issued : int
        How many it has issued on that group.
    stacks : str
    """
    asked = [record for record in records if record.group == group and record.seq == seq]
    running = [record for record in records if math.isnan(record.end)]
    return Account(
        issued,
        Call.of(asked[-1]) if asked else None,
        Call.of(running[0]) if running else None,
        Call.of(records[-1]) if records else None,
        stacks,
    )


def _decoded(said: JSON) -> Call | None:
    match said:
        case {
            "op": str(op),
            "seq": int(seq),
            "group": str(group),
            "what": str(what),
            "source": str(source),
            "began": float(began),
            "ended": float() | None as ended,
        }:
            return Call(op, seq, group, what, source, began, ended)
    return None
