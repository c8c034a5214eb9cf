"""Schedules as PyTorch names them: classes with its arguments, over programs that are data."""

from __future__ import annotations

from typing import Final

from shardwise.pipelining.schedule.named import find_named
from shardwise.pipelining.scheduled import Schedule

__all__ = [
    "SCHEDULES",
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
