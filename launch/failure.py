"""From what ranks reported to one verdict: who failed first, how, and with which exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["SPEAKER", "Ending", "Verdict", "judge", "rank_list"]

SPEAKER = "shardwise run"
"""Who speaks in messages among the output of ranks."""

# Raised in a rank because another one failed: never the cause.
_FOLLOWERS = frozenset({"WorldAbortedError"})

_HINTS = {
    signal.SIGKILL: "somebody killed it, or the system ran out of memory (see the kernel's log)",
    signal.SIGSEGV: "a crash in compiled code; its Python stack is above",
    signal.SIGBUS: "a crash in compiled code, or a full /dev/shm; its Python stack is above",
    signal.SIGABRT: "a library gave up; what it said is above",
    signal.SIGFPE: "a crash in compiled code; its Python stack is above",
    signal.SIGILL: "compiled code for another processor; its Python stack is above",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How one rank ended other than well.

    Attributes
    ----------
    rank : int
        Which.
    time : float
        When, in seconds on the host's monotonic clock.
    code : int
        Its exit code, 128 + signal for signals.
    kind : str
        "failed" (an uncaught exception), "exiting" (``sys.exit``), "exit" (anything else with a code),
        "signal", "lost" (no word), "interrupted" (KeyboardInterrupt).
    type, summary, text : str
        Of an exception: its type, one line, the whole traceback. Of ``sys.exit``: its message in `text`.
    places : str
        Equal for ranks that failed at the same place in the same way.
    """

    rank: int
    time: float
    code: int
    kind: str
    type: str = ""
    summary: str = ""
    text: str = ""
    places: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the user is told, and the exit code of the job.

    Attributes
    ----------
    code : int
        Exit code of the root cause; 0 if all is well.
    lines : list of str
        To print, the traceback of the root cause among them.
    root : Ending or None
        The rank that failed first.
    """

    code: int
    lines: Sequence[str] = field(default_factory=list)
    root: Ending | None = None


def rank_list(ranks: Iterable[int]) -> str:
    """Write ranks briefly.

    Examples
    --------
    >>> rank_list([3]), rank_list([2, 0, 1, 5])
    ('rank 3', 'ranks 0-2,5')
    """
    ordered = sorted(ranks)
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    text = ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"rank {text}" if len(ordered) == 1 else f"ranks {text}"


def judge(endings: Sequence[Ending], size: int, stopped: int = 0) -> Verdict:
    """Find the root cause among the endings, and say it once for all ranks that it befell alike.

    Parameters
    ----------
    endings : sequence of Ending
        At most one per rank.
    size : int
        Number of ranks in the job.
    stopped : int
        How many ranks were still running, and were stopped because of this.

    Returns
    -------
    Verdict
    """
    if not endings:
        return Verdict(0)
    ordered = sorted(endings, key=lambda ending: (_follows(ending), ending.time, ending.rank))
    root = ordered[0]
    alike = [ending for ending in ordered if _likeness(ending) == _likeness(root)]
    shown = min(alike, key=lambda ending: ending.rank)
    who = f"{rank_list(ending.rank for ending in alike)} of {size}" if size > 1 else "the script"
    rest = (
        "" if not stopped else "; the other rank was stopped" if stopped == 1 else "; the others were stopped"
    )
    told = f"{_deed(root, plural=len(alike) > 1)}{rest}"
    lines = []
    if root.kind == "failed":
        # Alone, the traceback says it all.
        if size > 1:
            which = f". The error of rank {shown.rank}:" if len({each.text for each in alike}) > 1 else ":"
            lines.append(f"{SPEAKER}: {who} {told}{which}")
        lines.append(shown.text.rstrip("\n"))
    elif root.kind == "exiting" and root.text:
        lines += [f"{SPEAKER}: {who} {told}:"] if size > 1 else []
        lines.append(root.text)
    elif size > 1 or root.kind in ("signal", "lost"):
        lines.append(f"{SPEAKER}: {who} {told}{_hint(root)}")
    lines += _others([ending for ending in ordered if ending not in alike])
    return Verdict(root.code, lines, root)


def _deed(ending: Ending, *, plural: bool) -> str:
    """What the ranks did, as the rest of a sentence about them."""
    if ending.kind == "failed":
        return "failed alike" if plural else "failed"
    if ending.kind == "interrupted":
        return "were interrupted" if plural else "was interrupted"
    if ending.kind == "signal":
        return f"{'were' if plural else 'was'} killed by {_signal_name(ending.code - 128)}"
    if ending.kind == "lost":
        return "vanished without a word, as if killed by SIGKILL"
    return f"exited with code {ending.code}"


def _others(endings: Sequence[Ending]) -> list[str]:
    """One line for each other way in which ranks failed, left out if they only followed."""
    groups: dict[str, list[int]] = {}
    for ending in endings:
        if ending.kind == "failed" and not _follows(ending):
            groups.setdefault(ending.summary, []).append(ending.rank)
    return [f"{SPEAKER}: then {rank_list(ranks)} failed with {summary}" for summary, ranks in groups.items()]


def _follows(ending: Ending) -> int:
    """Causes before consequences: 0 for what may be a root cause, higher for what follows from others."""
    if ending.kind == "interrupted":
        return 2
    return 1 if ending.type in _FOLLOWERS else 0


def _likeness(ending: Ending) -> tuple[str, str, int, str]:
    # Ranks that vanish after one another do not do so alike: MPI ends the others when the first is gone.
    text = ending.text if ending.kind == "exiting" else str(ending.rank) if ending.kind == "lost" else ""
    return (ending.kind, ending.places, ending.code, text)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _hint(ending: Ending) -> str:
    number = ending.code - 128 if ending.kind == "signal" else 0
    hint = next((text for known, text in _HINTS.items() if known == number), "")
    return f": {hint}" if hint else ""
