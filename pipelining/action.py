"""`Action`: one step of one stage, and how it is written: ``2F0``, ``0UNSHARD``, ``(4F4;3B0)OVERLAP_F_B``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from shardwise.backend.errors import ScheduleError

__all__ = ["COMMUNICATION", "COMPUTE", "Action", "Dialect", "Kind", "parse_action"]

Kind: TypeAlias = Literal[
    "F", "I", "W", "B", "R", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD",
    "SYNC_TIED", "OVERLAP_F_B",
]  # fmt: skip
"""What an action does.

``F`` forward; ``B`` full backward; ``I`` gradients of the inputs; ``W`` gradients of the weights; ``R`` the
forward again, for what checkpointing did not keep. ``SEND_F`` sends a stage's output to the next one,
``RECV_F`` receives a stage's input, ``SEND_B`` sends the gradient of a stage's input to the one before,
``RECV_B`` receives that of its output. ``UNSHARD`` and ``RESHARD`` gather a stage's parameters and drop them,
``REDUCE_GRAD`` reduces its gradients over data-parallel ranks, ``SYNC_TIED`` adds up those of a parameter
that several stages share. ``OVERLAP_F_B`` runs two actions as one.
"""

Dialect: TypeAlias = Literal["shardwise", "torch<2.6"]
"""How kinds are spelled: PyTorch before 2.6 wrote ``B`` for I and ``BW`` for B."""

_OLD_SPELLING: Final = {"B": "I", "BW": "B"}

COMPUTE: Final = frozenset({"F", "I", "W", "B", "OVERLAP_F_B"})
COMMUNICATION: Final = frozenset({"SEND_F", "RECV_F", "SEND_B", "RECV_B"})
_WITHOUT_MICROBATCH: Final = frozenset({"UNSHARD", "RESHARD", "REDUCE_GRAD", "SYNC_TIED"})
_KINDS: Final = frozenset(get_args(Kind))


@dataclass(frozen=True, slots=True)
class Action:
    """One step of the program of a rank.

    Parameters
    ----------
    stage : int
        Which stage; for ``SYNC_TIED`` which shared parameter; for ``OVERLAP_F_B`` that of the first part.
    kind : Kind
    microbatch : int or None
        None for what is done once per step.
    parts : tuple of Action
        The two actions of an ``OVERLAP_F_B``.
    peer : int or None
        The other stage of a transfer, where it is not the neighbour: a skip value.
    """

    stage: int
    kind: Kind
    microbatch: int | None = None
    parts: tuple[Action, ...] = ()
    peer: int | None = None

    @property
    def compute(self) -> tuple[Action, ...]:
        """The plain actions in it: itself, or its two parts."""
        return self.parts or (self,)

    def __str__(self) -> str:
        if self.kind == "OVERLAP_F_B":
            return f"({';'.join(map(str, self.parts))})OVERLAP_F_B"
        text = f"{self.stage}{self.kind}{'' if self.microbatch is None else self.microbatch}"
        if self.peer is not None:
            text += f"{'>' if self.kind.startswith('SEND') else '<'}{self.peer}"
        return text

    __repr__ = __str__


_PLAIN = re.compile(r"(\d+)([A-Z]+(?:_[A-Z]+)*)(\d+)?(?:([<>])(\d+))?", re.ASCII)
_OVERLAP = re.compile(r"\(([^();]+);([^();]+)\)OVERLAP_F_B", re.ASCII)


def parse_action(text: str, dialect: Dialect = "shardwise") -> Action:
    """Read an action.

    Raises
    ------
    ScheduleError
        It is none; the text is quoted.

    Examples
    --------
    >>> parse_action("1B2"), parse_action("0SEND_F3>2"), parse_action("(3F5;4B1)OVERLAP_F_B")
    (1B2, 0SEND_F3>2, (3F5;4B1)OVERLAP_F_B)
    """
    text = text.strip()
    both = _OVERLAP.fullmatch(text)
    if both is not None:
        first, second = (parse_action(part, dialect) for part in both.groups())
        if first.kind != "F" or second.kind not in ("B", "I"):
            raise ScheduleError(
                f"{text!r}: OVERLAP_F_B joins a forward F and a backward B or I, in this order"
            )
        return Action(first.stage, "OVERLAP_F_B", None, (first, second))
    found = _PLAIN.fullmatch(text)
    if found is None:
        raise ScheduleError(f"cannot read the action {text!r}: wanted <stage><kind><microbatch>, such as 2F0")
    stage, name, microbatch, arrow, peer = found.groups()
    kind: Any = _OLD_SPELLING.get(name, name) if dialect == "torch<2.6" else name
    if kind not in _KINDS or kind == "OVERLAP_F_B":
        raise ScheduleError(
            f"{text!r}: there is no kind of action {kind!r}; wanted one of {', '.join(get_args(Kind))}"
        )
    if (microbatch is None) != (kind in _WITHOUT_MICROBATCH):
        what = "takes no microbatch" if microbatch is not None else "needs a microbatch, as in 2F0"
        raise ScheduleError(f"{text!r}: {kind} {what}")
    if arrow is not None and arrow != {"SEND": ">", "RECV": "<"}.get(kind[:4]):
        raise ScheduleError(f"{text!r}: a send names its receiver by '>', a receive its sender by '<'")
    return Action(
        int(stage),
        kind,
        None if microbatch is None else int(microbatch),
        (),
        None if peer is None else int(peer),
    )
