"""From what ranks reported to one verdict: who failed first, how, and with which exit code."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shardwise.collectives.rank_list import rank_list

__all__ = ["SPEAKER", "Ending", "Verdict", "blamed_rank", "is_by_mpi", "judge"]

SPEAKER = "shardwise run"
"""Who speaks in messages among the output of ranks."""

# Raised in a rank because of what another one did or did not do: the cause only if nothing else is, and the
# earlier ones rather than the later.
_FOLLOWERS = ("CollectiveTimeoutError", "WorldAbortedError")

# The exit code of Open MPI's library in a rank whose peer has vanished: it may be told before the peer's own.
_LEFT_ALONE = 14

_DISAGREE = "ranks disagree on what they run together"
_COMPARED = "operation #"  # where all have been compared; else each tells only of itself and of another

_HAS_DIED = re.compile(r"\brank (\d+) on \S+ has died")

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
        "signal", "lost" (no word), "unreachable" (its host gave no answer any more), "interrupted"
        (KeyboardInterrupt).
    type, summary, text : str
        Of an exception: its type, one line, the whole traceback. Of ``sys.exit``: its message in `text`. Of a
        rank that was lost: the name of its host in `text`.
    places : str
        Equal for ranks that failed at the same place in the same way.
    bases : tuple of str
        Of an exception: its type and all that this derives from.
    """

    rank: int
    time: float
    code: int
    kind: str
    type: str = ""
    summary: str = ""
    text: str = ""
    places: str = ""
    bases: tuple[str, ...] = ()


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
    alike : tuple of int
        The ranks that failed as it did, itself among them.
    timed_out : bool
        Whether the job was ended because it took too long.
    started : bool
        Whether all ranks began.
    """

    code: int
    lines: Sequence[str] = field(default_factory=list)
    root: Ending | None = None
    alike: tuple[int, ...] = ()
    timed_out: bool = False
    started: bool = True


def judge(
    endings: Sequence[Ending], size: int, stopped: int = 0, hosts: Mapping[int, str] | None = None
) -> Verdict:
    """Find the root cause among the endings, and say it once for all ranks that it befell alike.

    Parameters
    ----------
    endings : sequence of Ending
        At most one per rank.
    size : int
        Number of ranks in the job.
    stopped : int
        How many ranks were still running, and were stopped because of this.
    hosts : mapping of int to str, optional
        Where the ranks are. It is said where there are several.

    Returns
    -------
    Verdict
    """
    if not endings:
        return Verdict(0)
    ordered = sorted(endings, key=lambda ending: (_follows(ending), ending.time, ending.rank))
    root = _cause(ordered)
    least = _follows(root) if root is ordered[0] else 0
    alike = [ending for ending in ordered if _likeness(ending) == _likeness(root)]
    # MPI's launchers may be faster than ours to stop the others.
    stopped += sum(
        ending.kind == "lost" or (_follows(ending) > least and ending.kind != "interrupted")
        for ending in endings
        if ending not in alike
    )
    stopped = min(stopped, size - len(alike))  # those that were stopped first may have failed alike
    shown = min(alike, key=lambda ending: ending.rank)
    who = f"{rank_list(ending.rank for ending in alike)} of {size}" if size > 1 else "the script"
    rest = (
        "" if not stopped else "; the other rank was stopped" if stopped == 1 else "; the others were stopped"
    )
    at = {(hosts or {}).get(ending.rank, "") for ending in alike}
    told_at = len(at) == 1 and len(set((hosts or {}).values())) > 1 and root.kind != "unreachable"
    where = f" on {at.pop()}" if told_at else ""
    told = f"{_deed(root, plural=len(alike) > 1)}{where}{rest}"
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
    elif size > 1 or root.kind in ("signal", "lost", "unreachable"):
        lines.append(f"{SPEAKER}: {who} {told}{_hint(root)}")
    lines += _others([ending for ending in ordered if ending not in alike])
    return Verdict(root.code, lines, root, tuple(sorted(ending.rank for ending in alike)))


def blamed_rank(ending: Ending) -> int | None:
    """Which rank's death ended this one, if it says so."""
    if "WorldAbortedError" not in (ending.type, *ending.bases):
        return None
    match = _HAS_DIED.search(ending.summary)
    return None if match is None else int(match[1])


def _cause(ordered: Sequence[Ending]) -> Ending:
    """The first of the ordered; or the one whose death it tells of, though MPI might have ended that."""
    blamed = blamed_rank(ordered[0])
    return next((ending for ending in ordered if ending.rank == blamed), ordered[0])


def _deed(ending: Ending, *, plural: bool) -> str:
    """What the ranks did, as the rest of a sentence about them."""
    if ending.kind == "failed":
        return "failed alike" if plural else "failed"
    if ending.kind == "interrupted":
        return "were interrupted" if plural else "was interrupted"
    if ending.kind == "signal":
        return f"{'were' if plural else 'was'} killed by {_signal_name(ending.code - 128)}"
    if ending.kind == "unreachable":
        return f"cannot be reached any more (host {ending.text}: it is down, or the link to it is)"
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


def is_by_mpi(ending: Ending) -> bool:
    """Whether a rank ended as MPI's launchers end those that are left: without a word, or by SIGTERM."""
    return ending.kind == "lost" or (ending.kind == "signal" and ending.code == 128 + signal.SIGTERM)


def _follows(ending: Ending) -> int:
    """Causes before consequences: 0 for what may be a root cause, higher for what follows from others."""
    if ending.kind == "interrupted":
        return len(_FOLLOWERS) + 1
    if ending.kind == "signal" and is_by_mpi(ending):
        return len(_FOLLOWERS) + 1
    if ending.kind == "exit" and ending.code == _LEFT_ALONE:
        return len(_FOLLOWERS)
    found = [place for place, name in enumerate(_FOLLOWERS, start=1) if name in (ending.type, *ending.bases)]
    return max(found, default=0)


def _likeness(ending: Ending) -> tuple[str, int, str, int, str]:
    # Ranks that vanish after one another do not do so alike: MPI ends the others when the first is gone.
    text = ending.text if ending.kind in ("exiting", "unreachable") else ""
    if ending.kind == "lost":
        text = str(ending.rank)
    places = ending.places
    if ending.type == "CollectiveMismatchError" and _DISAGREE in ending.summary:
        # Every side tells the same of all sides, from a line of its own; or of two of them.
        places = ending.summary.partition(_DISAGREE)[2] if _COMPARED in ending.summary else ""
    return (ending.kind, _follows(ending), places, ending.code, text)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _hint(ending: Ending) -> str:
    number = ending.code - 128 if ending.kind == "signal" else 0
    hint = next((text for known, text in _HINTS.items() if known == number), "")
    return f": {hint}" if hint else ""
