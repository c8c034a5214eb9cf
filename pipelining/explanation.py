"""`explain`: what the time of a run goes into: the critical path, why ranks wait, what would help."""

from __future__ import annotations

from dataclasses import dataclass

from shardwise.pipelining.simulation import Simulation, simulate
from shardwise.pipelining.span import Span

__all__ = ["Explanation", "Gap", "Help", "explain"]

_LITTLE = 1e-9  # of the makespan: not a gap


@dataclass(frozen=True, slots=True)
class Gap:
    """A time that a rank waits.

    Attributes
    ----------
    start, end : float
    before : str or None
        The action that it then runs; None behind its last one.
    waits_for : str
        What brings that: an action of a rank, the parameters, the end of the slowest rank.
    """

    rank: int
    start: float
    end: float
    before: str | None
    waits_for: str

    @property
    def length(self) -> float:
        """How long it waits."""
        return self.end - self.start

    def __str__(self) -> str:
        what = "has nothing left to do" if self.before is None else f"before {self.before}"
        return f"rank {self.rank} waits {self.length:g} from {self.start:g} on, {what}: {self.waits_for}"


@dataclass(frozen=True, slots=True)
class Help:
    """A change and what it would bring.

    Attributes
    ----------
    what : str
    makespan : float
        With the change.
    share : float
        Of the makespan, that it takes away.
    """

    what: str
    makespan: float
    share: float

    def __str__(self) -> str:
        return f"{self.what}: {self.makespan:g}, {self.share:.1%} less"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the time of a run goes into; prints as a page.

    Attributes
    ----------
    path : tuple of Span
        The critical path.
    shares : dict of str to float
        What the critical path consists of: time by stage and kind, and ``links``.
    gaps : tuple of Gap
        All of them, the longest first.
    help : tuple of Help
        What would shorten the run, the best first.
    """

    simulation: Simulation
    path: tuple[Span, ...]
    shares: dict[str, float]
    gaps: tuple[Gap, ...]
    help: tuple[Help, ...]

    def __str__(self) -> str:
        run = self.simulation
        shares = ", ".join([f"{name} {time:g}" for name, time in list(self.shares.items())[:6]])
        lines = [
            f"{run.makespan:g} units, bubble {run.bubble:.1%}; ranks wait "
            f"{', '.join([f'{idle:g}' for idle in run.idle])}",
            f"critical path: {len(self.path)} actions through ranks "
            f"{', '.join(map(str, sorted({s.rank for s in self.path})))}: {shares}",
            "longest waits:",
            *[f"  {gap}" for gap in self.gaps[:6]],
            "what would help:",
            *[f"  {each}" for each in self.help[:5]],
        ]
        return "\n".join(lines)


def explain(simulation: Simulation, part: float = 0.1) -> Explanation:
    """Explain a run.

    Parameters
    ----------
    simulation : Simulation
    part : float
        How much shorter a stage is made, to see what it would help.

    Examples
    --------
    >>> from shardwise.pipelining.cost import Costs
    >>> from shardwise.pipelining.program import Program
    >>> program = Program.from_text("0F0,0F1,0B0,0B1\\n1F0,1B0,1F1,1B1")
    >>> print(explain(simulate(program, Costs(F=[1.0, 2.0]))).help[0])
    stage 1 10% shorter: 10.2, 7.3% less
    """
    gaps = sorted(_gaps(simulation), key=lambda gap: (-gap.length, gap.rank, gap.start))
    path = simulation.critical_path
    return Explanation(simulation, path, _shares(simulation, path), tuple(gaps), _help(simulation, part))


def _shares(simulation: Simulation, path: tuple[Span, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    clock = 0.0
    for span in path:
        if span.start > clock:
            found["links"] = found.get("links", 0.0) + span.start - clock
        name = f"{span.action.stage}{span.action.kind}"
        found[name] = found.get(name, 0.0) + span.length
        clock = span.end
    if simulation.makespan > clock:
        found["network"] = simulation.makespan - clock
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _gaps(simulation: Simulation) -> list[Gap]:
    least = _LITTLE * simulation.makespan
    found = []
    for rank, spans in enumerate(simulation.spans):
        clock = 0.0
        for span in spans:
            if span.start - clock > least:
                found.append(Gap(rank, clock, span.start, str(span.action), _reason(simulation, span)))
            clock = span.end
        if simulation.makespan - clock > least:
            found.append(Gap(rank, clock, simulation.makespan, None, "other ranks still run"))
    return found


def _reason(simulation: Simulation, span: Span) -> str:
    """Tell what a gap ends with."""
    if span.why == "parameters":
        return f"the parameters of stage {span.action.stage} are still being gathered"
    if span.cause is None:
        return "nothing"
    maker = simulation.spans[span.cause[0]][span.cause[1]]
    late = span.start - maker.end
    link = f", and {late:g} on the way" if late > _LITTLE * simulation.makespan else ""
    return f"{maker.action} of rank {maker.rank}, which ends at {maker.end:g}{link}"


def _help(simulation: Simulation, part: float) -> tuple[Help, ...]:
    """Try changes one by one; keep those that make the run shorter."""
    costs, program, stages = simulation.costs, simulation.program, simulation.program.stages
    tries = [
        (
            f"stage {stage} {part:.0%} shorter",
            simulate(program, costs.scaled(stage, 1 - part, stages), lanes=simulation.lanes),
        )
        for stage in range(stages)
    ]
    if costs.latency != 0.0 or costs.bandwidth is not None:
        tries.append(("links that take no time", simulation.what_if(latency=0.0, bandwidth=None)))
    if any(simulation.asides):
        free = simulation.what_if(UNSHARD=0.0, REDUCE_GRAD=0.0, SYNC_TIED=0.0)
        tries.append(("gathers and reductions that take no time", free))
    found = [
        Help(what, run.makespan, 1 - run.makespan / simulation.makespan)
        for what, run in tries
        if run.makespan < simulation.makespan * (1 - 1e-9)
    ]
    return tuple(sorted(found, key=lambda each: each.makespan))
