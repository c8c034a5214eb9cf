"""From what is computed to what is also sent: transfers and sharding are written into a program.

A send and its receive are written at the same moment, for both ranks, right behind the action that produced
the value. So each rank's list is the projection of one order of events in which producers come before
consumers, and such programs cannot deadlock, however little a transport buffers (docs/design/pipelining.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import COMPUTE, Action
from shardwise.pipelining.need import NO_SKIPS, Event, Skips, carried, needs, results
from shardwise.pipelining.program import Program

__all__ = ["add_reductions", "add_transfers", "add_unsharding", "lower", "merge_backward"]


def lower(
    program: Program,
    max_active_stages: int | None = None,
    reduce_gradients: bool = False,
    skips: Skips = NO_SKIPS,
) -> Program:
    """Return a program that says all it does: sharding and reductions if asked for, and transfers.

    Parameters
    ----------
    program : Program
        Of computing actions.
    max_active_stages : int, optional
        Gather the parameters of so many stages of a rank at once, and drop others; keep all, if not given.
    reduce_gradients : bool
        Reduce a stage's gradients over data-parallel ranks when they are complete.
    skips : dict of int to tuple of int
        Stage -> later stages that take values of it past those between; they go straight there.

    Examples
    --------
    >>> print(lower(Program.from_text("0F0,0B0\\n1F0,1B0\\n2F0,2B0"), skips={0: (2,)}))
    0F0,0SEND_F0,0SEND_F0>2,0RECV_B0<2,0RECV_B0,0B0
    1RECV_F0,1F0,1SEND_F0,1RECV_B0,1B0,1SEND_B0
    2RECV_F0<0,2RECV_F0,2F0,2B0,2SEND_B0,2SEND_B0>0
    """
    if max_active_stages is not None:
        program = add_unsharding(program, max_active_stages)
    if reduce_gradients:
        program = add_reductions(program)
    return add_transfers(program, skips)


def merge_backward(program: Program) -> Program:
    """Return the program with neighbours ``sIi, sWi`` as one ``sBi``."""
    ranks = []
    for actions in program:
        merged: list[Action] = []
        for action in actions:
            before = merged[-1] if merged else None
            same = before is not None and (before.stage, before.microbatch) == (
                action.stage,
                action.microbatch,
            )
            if same and before is not None and before.kind == "I" and action.kind == "W":
                merged[-1] = Action(action.stage, "B", action.microbatch)
            else:
                merged.append(action)
        ranks.append(merged)
    return Program.of(ranks)


def add_unsharding(program: Program, max_active_stages: int = 3) -> Program:
    """Return the program with a stage's parameters gathered before it is needed, and dropped when others are.

    Before each action, the next `max_active_stages` different stages of the rank are active.
    """
    ranks = []
    for actions in program:
        out: list[Action] = []
        active: list[int] = []
        for place, action in enumerate(actions):
            wanted = _next_stages(actions[place:], max_active_stages)
            for stage in sorted(set(active) - set(wanted)):
                out.append(Action(stage, "RESHARD"))
                active.remove(stage)
            for stage in wanted:
                if stage not in active:
                    out.append(Action(stage, "UNSHARD"))
                    active.append(stage)
            out.append(action)
        ranks.append(out + [Action(stage, "RESHARD") for stage in sorted(active)])
    return Program.of(ranks)


def _next_stages(actions: Iterable[Action], most: int) -> list[int]:
    """Return the stages of the next actions in order, up to `most`; those of the first action in any case."""
    found: list[int] = []
    for place, action in enumerate(actions):
        for part in action.compute:
            if part.kind in COMPUTE and part.stage not in found and (place == 0 or len(found) < most):
                found.append(part.stage)
        if len(found) >= most:
            break
    return found


def add_reductions(program: Program) -> Program:
    """Return the program with REDUCE_GRAD right behind the last weight gradient of each stage."""
    ranks = []
    for actions in program:
        last: dict[int, int] = {}
        for place, action in enumerate(actions):
            for part in action.compute:
                if part.kind in ("W", "B"):
                    last[part.stage] = place
        out: list[Action] = []
        for place, action in enumerate(actions):
            out.append(action)
            out += [Action(stage, "REDUCE_GRAD") for stage in sorted(last) if last[stage] == place]
        ranks.append(out)
    return Program.of(ranks)


def add_transfers(program: Program, skips: Skips = NO_SKIPS) -> Program:
    """Return the program with its sends and receives.

    Raises
    ------
    ScheduleError
        No rank can go on: every rank that waits, with the action and what it waits for. A skip value would
        go to no later stage.
    """
    stages, owners = program.stages, program.owners
    for source, targets in skips.items():
        if not targets or not all(source < target < stages for target in targets):
            raise ScheduleError(
                f"skips: values of stage {source} go to later stages of {stages}, got {targets}"
            )
    out: list[list[Action]] = [[] for _ in program]
    have: list[set[Event]] = [set() for _ in program]
    at = [0] * len(program)
    while any(at[rank] < len(actions) for rank, actions in enumerate(program)):
        progress = False
        for rank, actions in enumerate(program):
            if at[rank] == len(actions) or not _is_ready(actions[at[rank]], stages, skips, have[rank]):
                continue
            action = actions[at[rank]]
            at[rank] += 1
            progress = True
            out[rank].append(action)
            for part in action.compute:
                if part.kind not in COMPUTE:
                    continue
                have[rank].update(results(part, skips))
                _transfer(part, rank, stages, skips, owners, out, have)
        if not progress:
            raise ScheduleError(_stuck(program, at, have, stages, skips))
    return Program.of(out)


def _is_ready(action: Action, stages: int, skips: Skips, have: set[Event]) -> bool:
    own: set[Event] = set()
    for part in action.compute:
        if part.kind not in COMPUTE:
            continue
        if any(need not in have and need not in own for need in needs(part, stages, skips)):
            return False
        own.update(results(part, skips))
    return True


def _transfer(
    part: Action,
    rank: int,
    stages: int,
    skips: Skips,
    owners: dict[tuple[int, int], int],
    out: list[list[Action]],
    have: list[set[Event]],
) -> None:
    """Write the sends and the receives of what an action produced, where other ranks consume it."""
    stage, i = part.stage, part.microbatch
    assert i is not None
    forth = part.kind == "F"
    if not forth and part.kind not in ("I", "B"):
        return
    letter, next_ = ("F", stage + 1) if forth else ("B", stage - 1)
    further = skips.get(stage, ()) if forth else [s for s in sorted(skips) if stage in skips[s]]
    for peer, skip in ((next_, False), *((each, True) for each in further)):
        other = owners.get((peer, i))
        if other is None or other == rank:  # nobody consumes it, or this rank does
            continue
        send = Action(stage, f"SEND_{letter}", i, (), peer if skip else None)  # type: ignore[arg-type]  # a kind
        receive = Action(peer, f"RECV_{letter}", i, (), stage if skip else None)  # type: ignore[arg-type]
        out[rank].append(send)
        out[other].append(receive)
        have[other].add(carried(send))


def _stuck(program: Program, at: list[int], have: list[set[Event]], stages: int, skips: Skips) -> str:
    lines = []
    for rank, actions in enumerate(program):
        if at[rank] < len(actions):
            action = actions[at[rank]]
            missing = [
                f"{stage}{kind}{microbatch}"
                for part in action.compute
                for kind, stage, microbatch in needs(part, stages, skips)
                if (kind, stage, microbatch) not in have[rank]
            ]
            lines.append(f"rank {rank} waits at {action} for {', '.join(missing)}")
    return "malformed schedule: " + "; ".join(lines)
