"""V8 to V10: what ranks hold: gathered parameters, gradients to reduce, activations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardwise.pipelining.action import COMPUTE
from shardwise.pipelining.checker.counting import Place, Subject
from shardwise.pipelining.checker.finding import Finding
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.memory import held_activations

__all__ = ["find_in_memory", "find_in_reductions", "find_in_sharding"]


def find_in_sharding(subject: Subject) -> Iterator[Finding]:
    """V8: gathered and dropped in turns, computed only between."""
    for rank, actions in enumerate(subject.program):
        if not any(action.kind in ("UNSHARD", "RESHARD") for action in actions):
            continue
        whole: dict[int, Place] = {}
        for place, action in enumerate(actions):
            here = Place(rank, place, action)
            if action.kind == "UNSHARD":
                if action.stage in whole:
                    yield subject.finding("V8", here, f"stage {action.stage} is gathered already")
                whole[action.stage] = here
            elif action.kind == "RESHARD":
                if action.stage not in whole:
                    yield subject.finding("V8", here, f"stage {action.stage} is not gathered")
                whole.pop(action.stage, None)
            else:
                for part in action.compute:
                    if part.kind in COMPUTE and part.stage not in whole:
                        what = f"stage {part.stage} is not gathered; UNSHARD comes first"
                        yield subject.finding("V8", here, what)
        for stage, there in sorted(whole.items()):
            yield subject.finding("V8", there, f"stage {stage} is never dropped; RESHARD comes last")


def find_in_reductions(subject: Subject) -> Iterator[Finding]:
    """V9: if any stage's gradients are reduced, then each stage's, once, behind its last W or B."""
    if not any(action.kind == "REDUCE_GRAD" for actions in subject.program for action in actions):
        return
    for rank, actions in enumerate(subject.program):
        last: dict[int, int] = {}
        reduced: dict[int, list[Place]] = {}
        for place, action in enumerate(actions):
            if action.kind == "REDUCE_GRAD":
                reduced.setdefault(action.stage, []).append(Place(rank, place, action))
            for part in action.compute:
                if part.kind in ("W", "B"):
                    last[part.stage] = place
        for stage in sorted(last.keys() | reduced.keys()):
            there = reduced.get(stage, [])
            if not there:
                at = Place(rank, last[stage], actions[last[stage]])
                yield subject.finding(
                    "V9", at, f"stage {stage} is never reduced; REDUCE_GRAD comes behind this"
                )
            elif len(there) > 1:
                yield subject.finding("V9", there[1], f"stage {stage} is reduced {len(there)} times")
            elif there[0].place < last.get(stage, -1):
                what = f"the gradients of stage {stage} are complete only at place {last[stage]}"
                yield subject.finding("V9", there[0], what)


def find_in_memory(subject: Subject, caps: float | Sequence[float], costs: Costs) -> Iterator[Finding]:
    """V10: activations within the cap of each rank."""
    for rank, actions in enumerate(subject.program):
        cap = caps if isinstance(caps, (int, float)) else caps[rank]
        for place, (action, held) in enumerate(zip(actions, held_activations(actions, costs), strict=True)):
            if held > cap * (1 + 1e-12):
                what = f"activations take {held:g} here, and the cap is {cap:g}"
                yield subject.finding("V10", Place(rank, place, action), what)
                break
