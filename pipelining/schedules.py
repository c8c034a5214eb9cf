"""Schedules as PyTorch names them: classes with its arguments, over programs that are data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import Dialect
from shardwise.pipelining.checker.check import require_valid
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.drawing import draw
from shardwise.pipelining.explanation import Explanation, explain
from shardwise.pipelining.lowering import lower
from shardwise.pipelining.program import Format, Program
from shardwise.pipelining.schedule.named import find_named
from shardwise.pipelining.simulation import Simulation, simulate

__all__ = [
    "SCHEDULES",
    "Schedule",
    "Schedule1F1B",
    "ScheduleDualPipe",
    "ScheduleDualPipeV",
    "ScheduleForwardOnly",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleVHalf",
    "ScheduleVMin",
    "ScheduleZBH1",
    "ScheduleZBH2",
    "ScheduleZBVZeroBubble",
    "get_schedule_class",
]


class Schedule:
    """What every rank does in one step.

    Parameters
    ----------
    ranks : int
    n_microbatches : int
    stages_per_rank : int, optional
        As the schedule has it by default: one, or two for those that need several.

    Attributes
    ----------
    program : Program
        What is computed.

    Examples
    --------
    >>> schedule = Schedule1F1B(2, 3)
    >>> print(schedule.draw())
    rank 0 |F0 F1 .. .. B0 B0 F2 B1 B1 .. B2 B2
    rank 1 |.. F0 B0 B0 F1 B1 B1 F2 B2 B2 .. ..
    >>> schedule.simulate(Costs(latency=0.5)).makespan
    14.0
    """

    name: ClassVar[str] = ""
    default_stages_per_rank: ClassVar[int] = 1

    def __init__(self, ranks: int, n_microbatches: int, stages_per_rank: int | None = None) -> None:
        if not self.name:
            raise ScheduleError(
                "Schedule has no program of its own; take a named one, Schedule.from_actions or from_csv"
            )
        name, named = find_named(self.name)
        per_rank = self.default_stages_per_rank if stages_per_rank is None else stages_per_rank
        self.program = named.program(name, ranks, n_microbatches, per_rank)

    @classmethod
    def from_actions(
        cls, program: Program | str | Sequence[str], format: Format = "compute_comms", replicas: int = 1
    ) -> Schedule:
        """Make a schedule of one's own program.

        Parameters
        ----------
        program : Program, str, or sequence of str
            A program, its text, or one line of actions per rank.
        format : Format
            ``compute_only`` refuses transfers.
        replicas : int
            Ranks that hold the same stage.

        Raises
        ------
        ScheduleError
            It is wrong in any of the ways that `check` knows.
        """
        if not isinstance(program, Program):
            text = program if isinstance(program, str) else "\n".join(program)
            program = Program.from_text(text, format)
        require_valid(program, format=format, replicas=replicas)
        made = Schedule.__new__(Schedule)
        made.program = program
        return made

    @classmethod
    def from_csv(
        cls, path: str | Path, format: Format = "compute_comms", dialect: Dialect = "shardwise"
    ) -> Schedule:
        """Make a schedule of a file that `Program.to_csv`, or PyTorch, wrote."""
        return cls.from_actions(Program.from_csv(path, format, dialect), format)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.program)

    @property
    def n_microbatches(self) -> int:
        """Number of microbatches."""
        return self.program.microbatches

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        return self.program.stages

    @property
    def lowered(self) -> Program:
        """What is computed and sent."""
        return self.program if self.program.has_transfers else lower(self.program)

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """Return the stages that a rank computes, ascending."""
        if not 0 <= rank < self.ranks:
            raise ScheduleError(f"stages_of: wanted a rank from 0 to {self.ranks - 1}, got {rank}")
        return self.program.stages_of(rank)

    def simulate(self, costs: Costs | None = None, *, lanes: bool = False) -> Simulation:
        """Run it on paper; see `simulate`."""
        return simulate(self.program, costs, lanes=lanes)

    def draw(self, costs: Costs | None = None) -> str:
        """Return a grid of time and ranks; see `draw`."""
        return draw(self.simulate(costs))

    def explain(self, costs: Costs | None = None) -> Explanation:
        """Return what the time goes into; see `explain`."""
        return explain(self.simulate(costs))

    def __repr__(self) -> str:
        what = f"ranks={self.ranks}, n_microbatches={self.n_microbatches}, n_stages={self.n_stages}"
        return f"{type(self).__name__}({what})"


class ScheduleGPipe(Schedule):
    """All forwards, then all backwards (Huang et al. 2019)."""

    name = "GPipe"


class Schedule1F1B(Schedule):
    """After a warm-up, a backward follows each forward (Narayanan et al. 2019)."""

    name = "1F1B"


class ScheduleZBH1(Schedule):
    """1F1B with weight gradients in the bubble (Qi et al. 2024)."""

    name = "ZBH1"


class ScheduleZBH2(Schedule):
    """ZB-H1 with twice the warm-up: no bubble but the skew of the ranks."""

    name = "ZBH2"


class ScheduleInterleaved1F1B(Schedule):
    """1F1B over several stages per rank (Narayanan et al. 2021)."""

    name, default_stages_per_rank = "Interleaved1F1B", 2


class ScheduleLoopedBFS(Schedule):
    """All microbatches through one stage after the other (Lamy-Poirier 2023)."""

    name, default_stages_per_rank = "LoopedBFS", 2


class ScheduleInterleavedZeroBubble(Schedule):
    """Interleaved 1F1B with weight gradients in the bubble."""

    name, default_stages_per_rank = "InterleavedZeroBubble", 2


class ScheduleZBVZeroBubble(Schedule):
    """Zero bubble in the memory of 1F1B, two stages per rank forth and back (Qi et al. 2024b)."""

    name, default_stages_per_rank = "ZBVZeroBubble", 2


class ScheduleVHalf(Schedule):
    """Half of the memory of 1F1B, and about half of its bubble."""

    name, default_stages_per_rank = "VHalf", 2


class ScheduleVMin(Schedule):
    """A third of the memory of 1F1B, and two thirds of its bubble."""

    name, default_stages_per_rank = "VMin", 2


class ScheduleDualPipeV(Schedule):
    """Forwards and backwards overlap, two stages per rank forth and back (DeepSeek-AI 2025)."""

    name, default_stages_per_rank = "DualPipeV", 2


class ScheduleDualPipe(Schedule):
    """Forwards and backwards overlap, two replicas fed from both ends (DeepSeek-AI 2024)."""

    name = "DualPipe"


class ScheduleForwardOnly(Schedule):
    """Forwards alone: evaluation."""

    name = "ForwardOnly"


SCHEDULES: Final[dict[str, type[Schedule]]] = {
    kind.name: kind
    for kind in (
        ScheduleGPipe, Schedule1F1B, ScheduleZBH1, ScheduleZBH2, ScheduleInterleaved1F1B, ScheduleLoopedBFS,
        ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble, ScheduleVHalf, ScheduleVMin, ScheduleDualPipeV,
        ScheduleDualPipe, ScheduleForwardOnly,
    )
}  # fmt: skip
"""Name -> class."""


def get_schedule_class(name: str) -> type[Schedule]:
    """Return a schedule's class by its name; case, hyphens and a leading ``Schedule`` do not matter.

    Raises
    ------
    ScheduleError
        There is none: all names.

    Examples
    --------
    >>> get_schedule_class("interleaved1f1b").__name__
    'ScheduleInterleaved1F1B'
    """
    return SCHEDULES[find_named(name)[0]]
