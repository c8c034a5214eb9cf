"""`Finding`: what is wrong with a program, where, and a picture of the place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from shardwise.pipelining.action import Action
from shardwise.pipelining.program import Program

__all__ = ["RULES", "Finding", "Rule", "picture"]

Rule: TypeAlias = Literal["V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9", "V10"]

RULES: Final[dict[Rule, str]] = {
    "V1": "each microbatch goes through each stage once: one F, and one B or one I and one W",
    "V2": "on its rank, F comes before I or B, and I before W",
    "V3": "each stage lies on one rank; all stages and microbatches are there, and no others",
    "V4": "there is one list of actions per rank",
    "V5": "a program that is only computed names no transfers",
    "V6": "the ranks do not wait for each other in a circle",
    "V7": "each send has one receive, behind what is sent and before what needs it, on links of every model",
    "V8": "parameters are gathered before they are used, and gathered and dropped in turns",
    "V9": "gradients are reduced once, when they are complete",
    "V10": "no rank holds more than its memory",
}

_REACH = 3  # actions shown on each side of the marked one
_MOST_RANKS = 8  # lines of a picture


@dataclass(frozen=True, slots=True)
class Finding:
    """A breach of a rule.

    Attributes
    ----------
    rule : str
        V1 to V10; `RULES` says what they are.
    rank, place : int or None
        Whose action, and which, counted from 0; None where no one action is to blame.
    action : Action or None
    what : str
        What was wanted and what is there.
    picture : str
        The actions of the ranks about the place, with the place in brackets.
    """

    rule: Rule
    rank: int | None
    place: int | None
    action: Action | None
    what: str
    picture: str

    def __str__(self) -> str:
        where = ""
        if self.rank is not None:
            where = f" rank {self.rank}"
            if self.place is not None:
                where += f", place {self.place}"
            where += f" ({self.action}):" if self.action is not None else ":"
        text = f"{self.rule}{where or ':'} {self.what}"
        return f"{text}\n{self.picture}" if self.picture else text


def picture(program: Program, marks: Mapping[int, int]) -> str:
    """Draw what ranks do about some places.

    Parameters
    ----------
    program : Program
    marks : mapping of int to int
        Rank -> the place that is marked; a place behind the last action marks the end.

    Examples
    --------
    >>> print(picture(Program.from_text("0F0,0B0\\n1B0,1F0"), {0: 1, 1: 0}))
    rank 0 | 0F0 [0B0]
    rank 1 | [1B0] 1F0
    """
    shown = sorted(marks)[:_MOST_RANKS]
    rows = []
    for rank in shown:
        actions, at = program.ranks[rank], marks[rank]
        first, last = max(0, at - _REACH), min(len(actions), at + _REACH + 1)
        cells = [f"[{a}]" if place == at else f" {a} " for place, a in enumerate(actions[first:last], first)]
        if at >= len(actions):
            cells.append("[end]")
        row = "".join(cells).replace("  ", " ").strip()
        rows.append(f"rank {rank} |{' ...' if first else ''} {row}{' ...' if last < len(actions) else ''}")
    if len(marks) > len(shown):
        rows.append(f"and {len(marks) - len(shown)} more ranks")
    return "\n".join(rows)
