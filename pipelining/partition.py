"""`partition`: cut a row of units into stages, so that the slowest stage is as fast as can be."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from shardwise.backend.errors import ScheduleError

__all__ = ["partition"]


def partition(
    costs: Sequence[float],
    stages: int,
    *,
    crossing: Sequence[float] | None = None,
    speeds: Sequence[float] | None = None,
    memory: Sequence[float] | None = None,
    limits: Sequence[float] | None = None,
    activations: Sequence[float] | None = None,
    in_flight: Sequence[float] | None = None,
    slack: float = 0.0,
) -> tuple[int, ...]:
    """Return where to cut: the first unit of each stage.

    Parameters
    ----------
    costs : sequence of float
        Per unit, in its order.
    stages : int
    crossing : sequence of float, optional
        Per place between two units, what it costs the stage before a cut there to send what crosses.
    speeds : sequence of float, optional
        Per stage, by which costs are divided.
    memory, limits : sequence of float, optional
        Per unit what it takes, and per stage what there is.
    activations, in_flight : sequence of float, optional
        Per unit what it takes besides for each microbatch, and per stage how many of them it holds at once.

    slack : float, optional
        By how much the largest cost may be above the least possible, for stages that are more alike.

    Returns
    -------
    tuple of int
        `stages` numbers, the first one 0. Of cuts that are good enough, those with the least sum of squares
        of the stages' costs; of those the earliest.

    Raises
    ------
    ScheduleError
        There are fewer units than stages, or no cuts fit the limits.

    Notes
    -----
    Exact: the least largest cost of a stage, then the least sum of squares, found by dynamic programming in
    O(stages units^2).

    Examples
    --------
    >>> partition([1, 1, 1, 1, 4], 2)
    (0, 4)
    """
    count = len(costs)
    if not 1 <= stages <= count:
        raise ScheduleError(f"cannot cut {count} units into {stages} stages; wanted from 1 to {count}")
    if (memory is None) != (limits is None):
        raise ScheduleError("partition: memory= and limits= belong together")
    if (activations is None) != (in_flight is None) or (activations is not None and limits is None):
        raise ScheduleError("partition: activations= and in_flight= belong together, and to limits=")
    for name, given, wanted in (
        ("crossing", crossing, count - 1), ("speeds", speeds, stages),
        ("memory", memory, count), ("limits", limits, stages),
        ("activations", activations, count), ("in_flight", in_flight, stages),
    ):  # fmt: skip
        if given is not None and len(given) != wanted:
            raise ScheduleError(f"partition: {name} has {len(given)} numbers, wanted {wanted}")
    work = _sums(costs)
    room = _sums(memory or [0.0] * count)
    live = _sums(activations or [0.0] * count)

    def cost(stage: int, first: int, last: int) -> float:
        """Return what a stage of the units from `first` up to `last` costs."""
        if limits is not None:
            held = room[last] - room[first]
            if in_flight is not None:
                held += in_flight[stage] * (live[last] - live[first])
            if held > limits[stage]:
                return math.inf
        spent = (work[last] - work[first]) / (speeds[stage] if speeds is not None else 1.0)
        return spent + (crossing[last - 1] if crossing is not None and last < count else 0.0)

    worst, _ = _best(count, stages, cost, max)
    if math.isinf(worst):
        raise ScheduleError(
            f"no way to cut {count} units into {stages} stages fits the limits {list(limits or ())}; take "
            "more stages, or keep less"
        )
    most = worst * (1.0 + slack) * (1.0 + 1e-9)

    def square(stage: int, first: int, last: int) -> float:
        spent = cost(stage, first, last)
        return spent * spent if spent <= most else math.inf

    return _best(count, stages, square, operator.add)[1]


def _best(
    count: int,
    stages: int,
    cost: Callable[[int, int, int], float],
    join: Callable[[float, float], float],
) -> tuple[float, tuple[int, ...]]:
    """Return the least that the costs of stages come to, and the earliest cuts that reach it."""
    # best[first]: the least of this stage and those behind it, for the units from `first` on
    best = [cost(stages - 1, first, count) for first in range(count)] + [math.inf]
    choices: list[list[int]] = []
    for stage in range(stages - 2, -1, -1):
        following, best, chosen = best, [math.inf] * (count + 1), [0] * (count + 1)
        for first in range(count - (stages - 1 - stage)):
            for last in range(first + 1, count):
                joined = join(cost(stage, first, last), following[last])
                if joined < best[first]:
                    best[first], chosen[first] = joined, last
        choices.append(chosen)
    cuts = [0]
    for chosen in reversed(choices):
        cuts.append(chosen[cuts[-1]])
    return best[0], tuple(cuts)


def _sums(values: Sequence[float]) -> list[float]:
    found = [0.0]
    for value in values:
        found.append(found[-1] + value)
    return found
