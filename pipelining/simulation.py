"""`simulate`: when each action of a program runs, and what it costs, on a machine that is only described."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from shardwise.pipelining.cost import Costs
from shardwise.pipelining.engine import Engine
from shardwise.pipelining.memory import MemoryUse, held_activations, memory_use
from shardwise.pipelining.program import Program
from shardwise.pipelining.span import Span, Transfer

__all__ = ["Simulation", "simulate"]


@dataclass(frozen=True, slots=True)
class Simulation:
    """When everything ran.

    Attributes
    ----------
    spans : tuple of tuple of Span
        Per rank what it computes, in order.
    asides : tuple of tuple of Span
        Per rank what goes over the network beside that: UNSHARD, REDUCE_GRAD, SYNC_TIED.
    transfers : tuple of Transfer
        Between ranks, in the order in which they can leave on each rank.
    makespan : float
        From the first start to the last end.
    peak : tuple of float
        Per rank, the most that activations took, those that are parked for W included.
    """

    program: Program
    spans: tuple[tuple[Span, ...], ...]
    asides: tuple[tuple[Span, ...], ...]
    transfers: tuple[Transfer, ...]
    makespan: float
    peak: tuple[float, ...]
    costs: Costs = field(repr=False)
    lanes: bool = False

    @property
    def busy(self) -> tuple[float, ...]:
        """Time that each rank computes."""
        return tuple([sum([span.length for span in spans]) for spans in self.spans])

    @property
    def idle(self) -> tuple[float, ...]:
        """Time that each rank waits, of the whole."""
        return tuple([self.makespan - busy for busy in self.busy])

    @property
    def lengths(self) -> tuple[float, ...]:
        """Per rank, the time from its first start to its last end."""
        return tuple([spans[-1].end - spans[0].start if spans else 0.0 for spans in self.spans])

    @property
    def bubble(self) -> float:
        """The share of time that ranks wait."""
        return 1 - sum(self.busy) / (len(self.spans) * self.makespan) if self.makespan else 0.0

    @property
    def skewless_bubble(self) -> float:
        """The bubble by the longest rank's own length: papers' rate, blind to the skew between ranks."""
        longest = max(self.lengths)
        return 1 - max(self.busy) / longest if longest else 0.0

    @property
    def critical_path(self) -> tuple[Span, ...]:
        """The actions that the makespan is made of, the first one first."""
        ends = [spans[-1] for spans in self.spans if spans]
        if not ends:
            return ()
        path = [max(ends, key=lambda span: span.end)]
        while path[-1].cause is not None:
            rank, place = path[-1].cause
            path.append(self.spans[rank][place])
        return tuple(reversed(path))

    @property
    def traffic(self) -> dict[tuple[int, int], float]:
        """(From, to) -> what went over that link."""
        found: dict[tuple[int, int], float] = {}
        for each in self.transfers:
            edge = each.source, each.target
            found[edge] = found.get(edge, 0.0) + each.amount
        return dict(sorted(found.items()))

    def memory(self, rank: int) -> MemoryUse:
        """Return what a rank holds over time, by cause."""
        arriving = [each for each in self.transfers if each.target == rank]
        return memory_use(self.spans[rank], arriving, self.costs)

    def what_if(self, **changes: object) -> Simulation:
        """Run the program again with other costs.

        Parameters
        ----------
        **changes : object
            Attributes of `Costs` that change: ``latency=0.0``, ``W=[1.0, 0.5]``.
        """
        return simulate(self.program, replace(self.costs, **changes), lanes=self.lanes)  # type: ignore[arg-type]


def simulate(program: Program, costs: Costs | None = None, *, lanes: bool = False) -> Simulation:
    """Run a program on paper: ranks do their actions in order, each as soon as what it needs has arrived.

    Parameters
    ----------
    program : Program
        Lowered or not; where it is not, a value leaves for its consumer when it is made.
    costs : Costs, optional
        One unit per F, I and W, if not given.
    lanes : bool
        Transfers of a directed pair of ranks go one behind the other, as ``costs.bandwidth`` says.

    Raises
    ------
    ScheduleError
        No rank can go on: who waits where for what.

    Examples
    --------
    >>> run = simulate(Program.from_text("0F0,0F1,0B0,0B1\\n1F0,1B0,1F1,1B1"))
    >>> run.makespan, run.peak
    (9.0, (2.0, 1.0))
    >>> run.what_if(latency=0.5).makespan
    10.0
    """
    price = costs or Costs()
    engine = Engine(program, price, lanes)
    engine.run()
    ends = [spans[-1].end for spans in (*engine.spans, *engine.asides) if spans]
    peak = tuple([max(held_activations(actions, price), default=0.0) for actions in program])
    return Simulation(
        program, tuple(map(tuple, engine.spans)), tuple(map(tuple, engine.asides)), tuple(engine.transfers),
        max(ends, default=0.0), peak, price, lanes,
    )  # fmt: skip
