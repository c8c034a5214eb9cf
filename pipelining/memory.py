"""What ranks hold: activations action by action, and everything over time, by cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shardwise.pipelining.action import Action
from shardwise.pipelining.cost import Costs, at_stage
from shardwise.pipelining.need import taker
from shardwise.pipelining.span import Span, Transfer

__all__ = ["CAUSES", "MemoryUse", "held_activations", "memory_use"]

CAUSES: Final = ("weights", "gradients", "optimizer", "activations", "parked", "received")
"""Why memory is held; ``parked`` is what is kept from I to W, ``received`` is not used yet."""


def held_activations(actions: Sequence[Action], costs: Costs) -> list[float]:
    """Return what the activations of a rank take during each of its actions.

    They do not depend on when actions run: a forward adds to them as it begins, I, W and B take away as they
    end.
    """
    again = {(a.stage, a.microbatch) for a in actions if a.kind == "R"}
    held, found = 0.0, []
    for action in actions:
        changes = [sum([c for c, _ in _changes(part, costs, again)]) for part in action.compute]
        held += sum([change for change in changes if change > 0])
        found.append(held)
        held += sum([change for change in changes if change < 0])
    return found


def _changes(part: Action, costs: Costs, again: set[tuple[int, int | None]]) -> Iterator[tuple[float, str]]:
    """Yield what a plain action changes, and of which cause."""
    if part.kind not in ("F", "R", "B", "I", "W"):
        return
    size = at_stage(costs.activation, part.stage) * costs.size_of(part)
    if part.kind == "F":
        yield size * (costs.checkpointed if (part.stage, part.microbatch) in again else 1.0), "activations"
    elif part.kind == "R":
        yield size * (1 - costs.checkpointed), "activations"
    elif part.kind == "B":
        yield -size, "activations"
    elif part.kind == "I":
        yield -size, "activations"
        yield costs.kept * size, "parked"
    elif part.kind == "W":
        yield -costs.kept * size, "parked"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a rank holds over time.

    Attributes
    ----------
    times : tuple of float
        When it changes, ascending.
    held : dict of str to tuple of float
        Cause -> what is held from each of the times on.
    """

    times: tuple[float, ...]
    held: dict[str, tuple[float, ...]]

    @property
    def total(self) -> tuple[float, ...]:
        """All causes together, from each of the times on."""
        return tuple([sum(values) for values in zip(*self.held.values(), strict=True)])

    @property
    def peak(self) -> float:
        """The most that is held at once."""
        return max(self.total, default=0.0)

    @property
    def at_peak(self) -> dict[str, float]:
        """Cause -> what it has when the most is held."""
        total = self.total
        if not total:
            return dict.fromkeys(CAUSES, 0.0)
        where = total.index(max(total))
        return {cause: self.held[cause][where] for cause in CAUSES}


def memory_use(spans: Sequence[Span], transfers: Sequence[Transfer], costs: Costs) -> MemoryUse:
    """Return what a rank holds over time.

    Parameters
    ----------
    spans : sequence of Span
        Of this rank.
    transfers : sequence of Transfer
        To this rank.
    costs : Costs
    """
    again = {(s.action.stage, s.action.microbatch) for s in spans if s.action.kind == "R"}
    changes: list[tuple[float, int, str, float]] = []  # frees come before allocations of the same time
    begun: set[int] = set()
    for span in spans:
        for part in span.action.compute:
            parts = list(_changes(part, costs, again))
            for change, cause in parts:
                # What I parks was held before, as an activation: it changes its name at the end of I.
                late = change < 0 or part.kind == "I"
                changes.append((span.end if late else span.start, 0 if late else 1, cause, change))
            if part.kind in ("W", "B") and part.stage not in begun:
                begun.add(part.stage)
                changes.append((span.start, 1, "gradients", at_stage(costs.gradients, part.stage)))
    starts: dict[tuple[str, int, int | None], float] = {
        (p.kind, p.stage, p.microbatch): span.start for span in spans for p in span.action.compute
    }
    for each in transfers:
        kinds, stage = taker(each.what)
        used = [starts[kind, stage, each.what[2]] for kind in kinds if (kind, stage, each.what[2]) in starts]
        if used:
            changes.append((each.start, 1, "received", each.amount))
            changes.append((used[0], 0, "received", -each.amount))
    first = min([span.start for span in spans], default=0.0)
    for stage in {part.stage for span in spans for part in span.action.compute}:
        changes.append((first, 1, "weights", at_stage(costs.weights, stage)))
        changes.append((first, 1, "optimizer", at_stage(costs.optimizer, stage)))
    return _add_up(sorted(changes))


def _add_up(changes: Sequence[tuple[float, int, str, float]]) -> MemoryUse:
    now = dict.fromkeys(CAUSES, 0.0)
    times: list[float] = []
    held: dict[str, list[float]] = {cause: [] for cause in CAUSES}
    for at, (time, phase, cause, change) in enumerate(changes):
        now[cause] += change
        if at + 1 < len(changes) and changes[at + 1][:2] == (time, phase):
            continue
        times.append(time)
        for each in CAUSES:
            held[each].append(now[each])
    return MemoryUse(tuple(times), {cause: tuple(values) for cause, values in held.items()})
