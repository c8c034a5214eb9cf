"""Why an operation does not end: which ranks are missing from it, and where they are instead.

A pure function of what the ranks say, so that every case can be tried without a job that hangs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardwise.collectives.flight.account import Account, Call, Finding
from shardwise.collectives.rank_list import rank_list

__all__ = ["fold_stacks", "verdict"]

_FIRST = "The first of a group connects it, and compiles kernels that are not kept yet: up to a minute."
_ADVICE = (
    "See that all of them call it, in the same order (SHARDWISE_DEBUG=1 tells where they part); or give it "
    "more time, by timeout= of wait or of the group."
)


def verdict(
    waiting: Call, rank: int, members: Sequence[int], timeout: float, findings: Mapping[int, Finding]
) -> str:
    """Say in one line what does not end, since when, and because of whom.

    Parameters
    ----------
    waiting : Call
        What this rank waits for.
    rank : int
    members : sequence of int
        Global ranks that must take part.
    timeout : float
        Seconds that were waited.
    findings : mapping of int to Finding
        About the members; of those that are left out nothing is known.

    Returns
    -------
    str
        One line.
    """
    said: dict[str, list[tuple[int, float]]] = {}
    for member in members:
        if member != rank:
            story, seconds = _story(waiting, findings.get(member, Finding(member, "silent", seconds=-1.0)))
            if story:
                said.setdefault(story, []).append((member, seconds))
    parts = [
        _spelled(story, [member for member, _ in who], max(seconds for _, seconds in who))
        for story, who in said.items()
    ]
    end = _ADVICE
    if not parts:
        parts = ["all ranks have come to it, so it is slow, or what carries it is stuck"]
        end = "Give it more time, by timeout= of wait or of the group; shardwise doctor looks at the network."
        if not waiting.seq:
            end = f"{_FIRST} {end}"
    return (
        f"rank {rank}: {waiting} did not end within {timeout:g} s ({waiting.what}, called at "
        f"{waiting.source}): {'; '.join(parts)}. {end}"
    )


def fold_stacks(findings: Mapping[int, Finding]) -> str:
    """Put the stacks of ranks together, those at the same place once; empty if there are none."""
    groups: dict[str, list[int]] = {}
    for rank in sorted(findings):
        found = findings[rank]
        stacks = found.stacks or (found.account.stacks if found.account else "")
        if stacks:
            groups.setdefault(stacks.rstrip("\n"), []).append(rank)
    if not groups:
        return ""
    return "Where the ranks are:\n" + "\n".join(
        f"{rank_list(ranks)}:\n{stacks}" for stacks, ranks in groups.items()
    )


def _story(waiting: Call, found: Finding) -> tuple[str, float]:
    """Tell of one rank, for one or many, {s} standing for seconds; nothing of one that has come."""
    account = found.account
    if account is not None and _has_come(waiting, account):
        return "", 0.0  # whatever became of it since: perhaps it has lost patience too
    match found.condition:
        case "left":
            return "{has} left the world {s} ago, without it", found.seconds
        case "dead":
            return f"{{has}} died {{s}} ago: {found.reason}", found.seconds
        case "failed" if account is None:
            return "{has} failed {s} ago", found.seconds
        case "stopped":
            return "{is} missing: silent since {s}, stopped by a signal", found.seconds
        case "held":
            return (
                "{is} missing: silent since {s}, with compiled code that holds the interpreter",
                found.seconds,
            )
        case "silent" if found.seconds < 0:
            return "{does} not answer", 0.0
        case "silent":
            return "{is} missing: silent since {s}", found.seconds
    if account is None:
        return "{does} not answer", 0.0
    message = " -> " in waiting.group
    asked = None if message else account.asked
    if asked is not None:
        return f"{{calls}} {asked.op} ({asked.what}) in its place, at {asked.source}", asked.began
    if account.current is not None:
        call = account.current
        return f"{{is}} missing: since {{s}} in {call}, called at {call.source}", call.began
    lacking = ", with nothing issued on this group" if not message and not account.issued else ""
    if account.last is None:
        return "{is} missing, with nothing issued at all", 0.0
    call = account.last
    return (
        f"{{is}} missing{lacking}: the last operation, {call}, called at {call.source}, ended {{s}} ago",
        call.ended if call.ended is not None else call.began,
    )


def _has_come(waiting: Call, account: Account) -> bool:
    if " -> " in waiting.group:  # messages are numbered by each rank for itself
        return False
    if account.asked is not None:
        return account.asked.op == waiting.op
    return account.issued > waiting.seq


def _spelled(story: str, ranks: Sequence[int], seconds: float) -> str:
    one = len(ranks) == 1
    verbs = {
        "{is}": "is" if one else "are",
        "{has}": "has" if one else "have",
        "{does}": "does" if one else "do",
        "{calls}": "calls" if one else "call",
        "{s}": f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s",
    }
    for place, verb in verbs.items():
        story = story.replace(place, verb)
    return f"{rank_list(ranks)} {story}"
