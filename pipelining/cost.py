"""`Costs`: what the actions of each stage take and hold, what links take, as numbers that anyone can give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import Action, parse_action

__all__ = ["Costs", "PerLink", "PerStage", "at_stage"]

PerStage: TypeAlias = float | Sequence[float]
"""One number for all stages, or one for each."""

PerLink: TypeAlias = float | Callable[[int, int], float]
"""One number for all links, or a function of the ranks at their ends."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What actions take, in any unit of time, and what they hold, in any unit of memory.

    Attributes
    ----------
    F, I, W : float or sequence of float
        Forward, input gradients, weight gradients; per stage, if they differ.
    B : float or sequence of float, optional
        Full backward; `I` and `W` together, if not given.
    overlap : float or sequence of float, optional
        A forward and a backward that run as one; the sum of both, if not given.
    R : float or sequence of float, optional
        Recomputation; as `F`, if not given.
    UNSHARD, REDUCE_GRAD, SYNC_TIED : float or sequence of float
        Time on the network beside the computation.
    times : dict of str to float, optional
        What single actions take, by their text, ``{"2F0": 1.5}``: measured ones. Others as above.
    latency : float or callable
        From one rank to another, or ``latency(source, target)``.
    bandwidth : float or callable, optional
        Units of memory per unit of time; transfers take no time of their own, if not given.
    message : float or sequence of float
        What goes from a stage to the next one per microbatch; its gradient is as large.
    skip : float or sequence of float, optional
        What a stage sends to each stage that takes values past those between; as `message`, if not given.
    sizes : sequence of float, optional
        Of microbatches, relative to those that the numbers are for: all alike, if not given.
    activation : float or sequence of float
        What the forward of a microbatch keeps.
    kept : float
        The share of it that is kept from I to W.
    checkpointed : float
        The share of it that is kept by a forward that R runs again.
    weights, gradients, optimizer : float or sequence of float
        What a stage holds all the time; gradients from the first of them on.

    Examples
    --------
    >>> costs = Costs(F=[1.0, 2.0], I=1.0, W=0.5)
    >>> costs.of(Action(1, "F", 0)), costs.of(Action(1, "B", 0))
    (2.0, 1.5)
    """

    F: PerStage = 1.0
    I: PerStage = 1.0  # noqa: E741  (the field's own name)
    W: PerStage = 1.0
    B: PerStage | None = None
    overlap: PerStage | None = None
    R: PerStage | None = None
    UNSHARD: PerStage = 0.0
    REDUCE_GRAD: PerStage = 0.0
    SYNC_TIED: PerStage = 0.0
    times: Mapping[str, float] | None = None
    latency: PerLink = 0.0
    bandwidth: PerLink | None = None
    message: PerStage = 1.0
    skip: PerStage | None = None
    sizes: Sequence[float] | None = None
    activation: PerStage = 1.0
    kept: float = 1.0
    checkpointed: float = 0.0
    weights: PerStage = 0.0
    gradients: PerStage = 0.0
    optimizer: PerStage = 0.0

    def of(self, action: Action) -> float:
        """Return what an action takes."""
        if self.times is not None and str(action) in self.times:
            return self.times[str(action)]
        if action.kind == "OVERLAP_F_B":
            if self.overlap is None:
                return sum([self.of(part) for part in action.parts])
            return at_stage(self.overlap, action.stage) * self.size_of(action.parts[0])
        return self._plain(action) * self.size_of(action)

    def _plain(self, action: Action) -> float:
        stage, given = action.stage, self._numbers(action.kind)
        if given is not None:
            return at_stage(given, stage)
        if action.kind == "B":
            return at_stage(self.I, stage) + at_stage(self.W, stage)
        return at_stage(self.F, stage) if action.kind == "R" else 0.0

    def _numbers(self, kind: str) -> PerStage | None:
        table: dict[str, PerStage | None] = {
            "F": self.F, "I": self.I, "W": self.W, "B": self.B, "R": self.R, "UNSHARD": self.UNSHARD,
            "REDUCE_GRAD": self.REDUCE_GRAD, "SYNC_TIED": self.SYNC_TIED,
        }  # fmt: skip
        return table.get(kind)

    def size_of(self, action: Action) -> float:
        """Return how large the microbatch of an action is, relative to what the numbers are for."""
        if self.sizes is None or action.microbatch is None:
            return 1.0
        return self.sizes[action.microbatch]

    def hop(self, source: int, target: int) -> float:
        """Return the time from one rank to another."""
        if source == target:
            return 0.0
        return self.latency(source, target) if callable(self.latency) else self.latency

    def flow(self, source: int, target: int, amount: float) -> float:
        """Return how long a transfer keeps its link busy."""
        if source == target or self.bandwidth is None:
            return 0.0
        return amount / (self.bandwidth(source, target) if callable(self.bandwidth) else self.bandwidth)

    def scaled(self, stage: int, factor: float, stages: int) -> Costs:
        """Return the costs with everything that a stage computes made `factor` times as long."""

        def change(given: PerStage) -> list[float]:
            return [at_stage(given, s) * (factor if s == stage else 1.0) for s in range(stages)]

        times = self.times
        if times is not None:
            single = {text: parse_action(text) for text in times}
            times = {t: v * (factor if single[t].stage == stage else 1.0) for t, v in times.items()}
        return replace(
            self,
            times=times,
            F=change(self.F),
            I=change(self.I),
            W=change(self.W),
            B=None if self.B is None else change(self.B),
            R=None if self.R is None else change(self.R),
            overlap=None if self.overlap is None else change(self.overlap),
        )

    @classmethod
    def from_file(cls, path: str | Path) -> Costs:
        """Read a JSON object with the names of the attributes.

        Raises
        ------
        ScheduleError
            It is no such object: the file, and what is wrong.
        """
        try:
            found = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise ScheduleError(f"cannot read costs from {path}: {error}") from error
        names = {field.name for field in fields(cls)}
        if not isinstance(found, dict) or not found.keys() <= names:
            extra = ", ".join(sorted(found.keys() - names)) if isinstance(found, dict) else "no object"
            raise ScheduleError(f"{path}: wanted an object with {', '.join(sorted(names))}; got {extra}")
        return cls(**found)


def at_stage(value: PerStage, stage: int) -> float:
    """Return the number of a stage."""
    return float(value) if isinstance(value, (int, float)) else float(value[stage])
