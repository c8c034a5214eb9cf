"""V-Half and V-Min: two stages per rank forth and back, in half or a third of the memory of 1F1B.

Each microbatch repeats one building block, six units behind the one before (Qi et al. 2024b): the slots of F
and I of both stages of a rank. They give the order; weight gradients go where a rank would wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from shardwise.pipelining.cost import Costs
from shardwise.pipelining.program import Program, v_placement
from shardwise.pipelining.schedule.greedy import Policy, greedy_program
from shardwise.pipelining.schedule.shape import check_counts
from shardwise.pipelining.simulation import simulate

__all__ = ["v_half", "v_min"]


def v_half(ranks: int, microbatches: int) -> Program:
    """Half of 1F1B's memory, and about half of its bubble."""
    check_counts("V-Half", ranks, microbatches)
    shift = 0 if ranks % 2 else 3
    slots: dict[tuple[str, int], float] = {}
    for i in range(ranks):
        slots |= _slots(
            i, ranks, (2 * i, 3 * ranks - 2 - i, 3 * ranks + shift + 2 * i - 1, 6 * ranks + shift - i - 2)
        )
    return _best(ranks, microbatches, slots, 2 * ((ranks + 2) // 2))


def v_min(ranks: int, microbatches: int) -> Program:
    """A third of 1F1B's memory, and two thirds of its bubble."""
    check_counts("V-Min", ranks, microbatches)
    shift = 0 if ranks % 3 else 2
    slots: dict[tuple[str, int], float] = {}
    for i in range(ranks):
        slots |= _slots(i, ranks, (i, 2 * ranks - 1 - i, 2 * ranks + shift + i, 4 * ranks + shift - 1 - i))
    return _best(ranks, microbatches, slots, 2 * ((ranks + 4) // 3))


def _slots(rank: int, ranks: int, slots: tuple[int, int, int, int]) -> dict[tuple[str, int], float]:
    forth, back = rank, 2 * ranks - 1 - rank
    return dict(zip([("F", forth), ("F", back), ("I", back), ("I", forth)], slots, strict=True))


def _best(ranks: int, microbatches: int, slots: Mapping[tuple[str, int], float], cap: int) -> Program:
    """Return the shorter one of the pattern as it is and the one that takes its slots as advice only."""
    found = []
    for strict in (True, False):
        policy = Policy(slack=0.0, slots=slots, strict=strict)
        program = greedy_program(v_placement(ranks, 2 * ranks), microbatches, Costs(), policy, [cap] * ranks)
        if program is not None:
            run = simulate(program)
            found.append(((max(run.lengths), run.makespan), program))
    return min(found, key=lambda each: each[0])[1]
