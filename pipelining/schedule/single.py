"""Schedules of one stage per rank: GPipe, 1F1B, and the zero-bubble ones ZB-H1 and ZB-H2."""

from __future__ import annotations

from shardwise.pipelining.action import Action
from shardwise.pipelining.program import Program
from shardwise.pipelining.schedule.shape import action, check_counts

__all__ = ["forward_only", "gpipe", "one_forward_one_backward", "zb_h1", "zb_h2"]


def forward_only(ranks: int, microbatches: int) -> Program:
    """Run forwards alone: evaluation."""
    check_counts("forward-only", ranks, microbatches)
    return Program.of([[action(rank, "F", i) for i in range(microbatches)] for rank in range(ranks)])


def gpipe(ranks: int, microbatches: int) -> Program:
    """All forwards, then all backwards (Huang et al. 2019). Every microbatch is in flight at once."""
    check_counts("GPipe", ranks, microbatches)
    return Program.of(
        [[action(rank, kind, i) for kind in ("F", "B") for i in range(microbatches)] for rank in range(ranks)]
    )


def one_forward_one_backward(ranks: int, microbatches: int) -> Program:
    """After a warm-up, a backward follows each forward (Narayanan et al. 2019): p - r are in flight."""
    check_counts("1F1B", ranks, microbatches)
    program = []
    for rank in range(ranks):
        warm_up = min(microbatches, ranks - 1 - rank)
        actions = [action(rank, "F", i) for i in range(warm_up)]
        for k in range(microbatches - warm_up):
            actions += [action(rank, "F", warm_up + k), action(rank, "B", k)]
        actions += [action(rank, "B", i) for i in range(microbatches - warm_up, microbatches)]
        program.append(actions)
    return Program.of(program)


def zb_h1(ranks: int, microbatches: int) -> Program:
    """1F1B with weight gradients put off into the bubble (Qi et al. 2024): a third of its bubble."""
    check_counts("ZB-H1", ranks, microbatches)
    return Program.of([_put_off(r, microbatches, min(microbatches, ranks - 1 - r), r) for r in range(ranks)])


def zb_h2(ranks: int, microbatches: int) -> Program:
    """ZB-H1 with twice the warm-up: no bubble but the skew of the ranks; 2p - 1 are in flight."""
    check_counts("ZB-H2", ranks, microbatches)
    return Program.of(
        [_put_off(r, microbatches, min(microbatches, 2 * (ranks - 1 - r)), 2 * r) for r in range(ranks)]
    )


def _put_off(rank: int, microbatches: int, warm_up: int, lag: int) -> list[Action]:
    """Return the actions of a rank whose weight gradients come `lag` input gradients behind."""
    actions = [action(rank, "F", i) for i in range(warm_up)]
    weights = 0
    for k in range(microbatches):
        if warm_up + k < microbatches:
            actions.append(action(rank, "F", warm_up + k))
        actions.append(action(rank, "I", k))
        if k >= lag:
            actions.append(action(rank, "W", weights))
            weights += 1
    return actions + [action(rank, "W", i) for i in range(weights, microbatches)]
