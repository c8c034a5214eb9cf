"""Every named schedule in one table: a new one is one pure function and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.program import Program
from shardwise.pipelining.schedule.bidirectional import dual_pipe
from shardwise.pipelining.schedule.half import v_half, v_min
from shardwise.pipelining.schedule.interleaved import (
    interleaved_one_forward_one_backward,
    interleaved_zero_bubble,
    looped_bfs,
)
from shardwise.pipelining.schedule.single import (
    forward_only,
    gpipe,
    one_forward_one_backward,
    zb_h1,
    zb_h2,
)
from shardwise.pipelining.schedule.vee import dual_pipe_v, zbv

__all__ = ["NAMED", "Named", "find_named"]


@dataclass(frozen=True, slots=True)
class Named:
    """A schedule that has a name.

    Attributes
    ----------
    make : callable
        (ranks, microbatches, stages per rank) -> program.
    per_rank : tuple of int, or None
        Stages per rank that it takes; None for any number.
    placement : str
        ``loop``, ``v``, or ``both``: two replicas, one from each end.
    trains : bool
    """

    make: Callable[[int, int, int], Program]
    per_rank: tuple[int, ...] | None
    placement: Literal["loop", "v", "both"]
    trains: bool = True

    @property
    def replicas(self) -> int:
        """How many ranks hold each stage."""
        return 2 if self.placement == "both" else 1

    def program(self, name: str, ranks: int, microbatches: int, per_rank: int) -> Program:
        """Return the program, refusing a number of stages per rank that it does not take."""
        if per_rank < 1 or (self.per_rank is not None and per_rank not in self.per_rank):
            wanted = " or ".join(map(str, self.per_rank)) if self.per_rank else "at least 1"
            raise ScheduleError(f"{name}: wanted {wanted} stages per rank, got {per_rank}")
        return self.make(ranks, microbatches, per_rank)


NAMED: Final[dict[str, Named]] = {
    "GPipe": Named(lambda p, m, v: gpipe(p, m), (1,), "loop"),
    "1F1B": Named(lambda p, m, v: one_forward_one_backward(p, m), (1,), "loop"),
    "ZBH1": Named(lambda p, m, v: zb_h1(p, m), (1,), "loop"),
    "ZBH2": Named(lambda p, m, v: zb_h2(p, m), (1,), "loop"),
    "LoopedBFS": Named(looped_bfs, None, "loop"),
    "Interleaved1F1B": Named(interleaved_one_forward_one_backward, None, "loop"),
    "InterleavedZeroBubble": Named(interleaved_zero_bubble, None, "loop"),
    "ZBVZeroBubble": Named(lambda p, m, v: zbv(p, m), (2,), "v"),
    "VHalf": Named(lambda p, m, v: v_half(p, m), (2,), "v"),
    "VMin": Named(lambda p, m, v: v_min(p, m), (2,), "v"),
    "DualPipeV": Named(lambda p, m, v: dual_pipe_v(p, m), (2,), "v"),
    "DualPipe": Named(lambda p, m, v: dual_pipe(p, m), (1,), "both"),
    "ForwardOnly": Named(lambda p, m, v: forward_only(p, m), (1,), "loop", trains=False),
}
"""Name -> schedule. Names are PyTorch's where PyTorch has the schedule."""


def find_named(name: str) -> tuple[str, Named]:
    """Return a schedule by its name; case, hyphens and a leading ``Schedule`` do not matter.

    Raises
    ------
    ScheduleError
        There is none: all names.
    """
    wanted = _plain(name)
    for each, named in NAMED.items():
        if _plain(each) == wanted:
            return each, named
    raise ScheduleError(f"there is no schedule {name!r}; wanted one of {', '.join(NAMED)}")


def _plain(name: str) -> str:
    plain = name.lower().replace("-", "").replace("_", "")
    aliases = {"zbv": "zbvzerobubble", "zb1p": "interleavedzerobubble", "interleaved": "interleaved1f1b"}
    plain = plain.removeprefix("schedule")
    return aliases.get(plain, plain)
