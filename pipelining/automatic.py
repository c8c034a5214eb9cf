"""`best_schedule`: of all named schedules and of many made for the costs at hand, the shortest that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.program import Program, loop_placement, v_placement
from shardwise.pipelining.schedule.greedy import Policy, greedy_program
from shardwise.pipelining.schedule.named import NAMED
from shardwise.pipelining.simulation import Simulation, simulate

__all__ = ["Candidate", "Choice", "Measure", "best_schedule"]

Measure: TypeAlias = Literal["makespan", "span"]
"""What is to be short: the whole run, or the longest rank's own time, blind to the skew between ranks."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule that was tried.

    Attributes
    ----------
    name : str
    per_rank : int
        Stages per rank.
    value : float
        Makespan or span.
    peak : tuple of float
        Activations of each rank.
    fits : bool
        Whether they are within the cap.
    """

    name: str
    per_rank: int
    value: float
    peak: tuple[float, ...]
    fits: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The schedule that was found; prints as a table.

    Attributes
    ----------
    name : str
        Of a named schedule, or ``automatic``.
    program : Program
    simulation : Simulation
    candidates : tuple of Candidate
        All named schedules that can be made of these numbers, and the best automatic one; the shortest first.
    """

    name: str
    program: Program
    simulation: Simulation
    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        lines = [f"{'schedule':24}{'stages/rank':>12}{'time':>12}{'peak':>10}"]
        for each in self.candidates:
            note = "" if each.fits else "  does not fit"
            lines.append(f"{each.name:24}{each.per_rank:>12}{each.value:>12.6g}{max(each.peak):>10.4g}{note}")
        return "\n".join(lines)


def best_schedule(
    ranks: int,
    microbatches: int,
    costs: Costs | Mapping[int, Costs] | None = None,
    *,
    memory: float | Sequence[float] | None = None,
    measure: Measure = "makespan",
) -> Choice:
    """Find a program for measured costs, within a cap on memory: no named schedule that fits is shorter.

    Parameters
    ----------
    ranks, microbatches : int
    costs : Costs, or mapping of int to Costs
        Of one stage per rank; or stages per rank -> costs of such stages, to choose among several ways to cut
        the model.
    memory : float or sequence of float, optional
        Cap on the activations of each rank, in units of ``costs.activation``.
    measure : Measure

    Raises
    ------
    ScheduleError
        Nothing fits: what the smallest one needs.

    Notes
    -----
    The result depends on the arguments alone, so all ranks find the same.

    Examples
    --------
    >>> choice = best_schedule(4, 8, Costs(F=1.0, I=1.0, W=1.0), memory=4)
    >>> choice.simulation.makespan, max(choice.simulation.peak)
    (27.0, 4.0)
    """
    by_count = costs if isinstance(costs, Mapping) else {1: costs or Costs()}
    caps = None if memory is None else _caps(memory, ranks)
    found: list[tuple[Candidate, Simulation]] = []
    for per_rank, price in sorted(by_count.items()):
        made = [
            *_named(ranks, microbatches, per_rank),
            *_automatic(ranks, microbatches, per_rank, price, caps),
        ]
        best: dict[str, tuple[Candidate, Simulation]] = {}
        for name, program in made:
            run = simulate(program, price)
            value = run.makespan if measure == "makespan" else max(run.lengths)
            fits = caps is None or all(p <= c * (1 + 1e-9) for p, c in zip(run.peak, caps, strict=True))
            candidate = Candidate(name, per_rank, value, run.peak, fits)
            if name not in best or (not fits, value) < (not best[name][0].fits, best[name][0].value):
                best[name] = (candidate, run)
        found += best.values()
    found.sort(key=lambda each: (not each[0].fits, each[0].value))
    if not found or not found[0][0].fits:
        least = min([max(c.peak) for c, _ in found], default=float("nan"))
        raise ScheduleError(
            f"best_schedule: no schedule of {ranks} ranks and {microbatches} microbatches keeps within "
            f"memory={memory}; the smallest one needs {least:g}"
        )
    candidate, run = found[0]
    return Choice(candidate.name, run.program, run, tuple([each for each, _ in found]))


def _caps(memory: float | Sequence[float], ranks: int) -> list[float]:
    caps = [float(memory)] * ranks if isinstance(memory, (int, float)) else [float(each) for each in memory]
    if len(caps) != ranks:
        raise ScheduleError(f"best_schedule: wanted a cap for each of {ranks} ranks, got {len(caps)}")
    return caps


def _named(ranks: int, microbatches: int, per_rank: int) -> Iterator[tuple[str, Program]]:
    for name, named in NAMED.items():
        if not named.trains or named.replicas > 1:
            continue
        try:
            yield name, named.program(name, ranks, microbatches, per_rank)
        except ScheduleError:
            continue  # not of so many ranks, microbatches or stages


def _automatic(
    ranks: int, microbatches: int, per_rank: int, costs: Costs, caps: Sequence[float] | None
) -> Iterator[tuple[str, Program]]:
    """Yield programs of many policies, on each placement; those that make the same one are left out."""
    placements = [loop_placement(ranks, ranks * per_rank)]
    if per_rank > 1:
        placements.append(v_placement(ranks, ranks * per_rank))
    seen: set[Program] = set()
    for placement in placements:
        for policy in _POLICIES:
            program = greedy_program(placement, microbatches, costs, policy, caps)
            if program is not None and program not in seen:
                seen.add(program)
                yield "automatic", program


_TWO: Final[tuple[Literal["I", "turns"], ...]] = ("I", "turns")

# How long to wait for an input gradient matters most. Late ranks that leave memory unused start their
# backward sooner, which helps where memory is short.
_POLICIES: Final = (
    *[
        policy
        for patience in (0.7, 0.6, 0.5, 0.4, 0.15, 0.1)
        for policy in (
            Policy("turns", 0.0, patience),
            Policy("turns", 0.3, patience, taper=0.1),
            Policy("I", 0.0, patience),
        )
    ],
    *[Policy(first, 1.0, patience) for first in _TWO for patience in (0.0, 0.5)],
    *[Policy("F", slack) for slack in (0.0, 1.0)],
)
