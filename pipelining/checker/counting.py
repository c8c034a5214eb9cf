"""V1 to V5: that everything is there once, on one rank, in the order of a microbatch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from shardwise.pipelining.action import COMMUNICATION, COMPUTE, Action
from shardwise.pipelining.checker.finding import Finding, Rule, picture
from shardwise.pipelining.program import Program

__all__ = ["Subject", "find_in_counts", "find_in_format", "find_in_order", "find_in_placement"]


class Place(NamedTuple):
    """Where a plain computing action stands."""

    rank: int
    place: int
    action: Action


class Subject:
    """A program, what it should have, and where everything in it is.

    Parameters
    ----------
    program : Program
    stages, microbatches : int, optional
        As many as the program names, if not given.
    """

    def __init__(self, program: Program, stages: int | None, microbatches: int | None) -> None:
        self.program = program
        self.skips = program.skips
        self.stages = program.stages if stages is None else stages
        self.microbatches = program.microbatches if microbatches is None else microbatches
        self.places: dict[tuple[str, int, int], list[Place]] = {}
        for rank, actions in enumerate(program):
            for place, action in enumerate(actions):
                for part in action.compute:
                    if part.kind in COMPUTE and part.microbatch is not None:
                        at = self.places.setdefault((part.kind, part.stage, part.microbatch), [])
                        at.append(Place(rank, place, part))

    @property
    def trains(self) -> bool:
        """Whether there is any backward."""
        return any(kind != "F" for kind, _, _ in self.places)

    def find(self, kind: str, stage: int, microbatch: int) -> list[Place]:
        """Return where an action stands; several places if it is there more than once."""
        return self.places.get((kind, stage, microbatch), [])

    def finding(self, rule: Rule, at: Place | None, what: str) -> Finding:
        """Return a finding about a place, with its picture."""
        if at is None:
            return Finding(rule, None, None, None, what, "")
        shown = picture(self.program, {at.rank: at.place})
        return Finding(rule, at.rank, at.place, at.action, what, shown)


def find_in_counts(subject: Subject) -> Iterator[Finding]:
    """V1: one forward and one backward of each microbatch in each stage."""
    for stage in range(subject.stages):
        for i in range(subject.microbatches):
            counts = Counter({kind: len(subject.find(kind, stage, i)) for kind in "FIWB"})
            for kind in "FIWB":
                if counts[kind] > 1:
                    again = subject.find(kind, stage, i)[1]
                    yield subject.finding("V1", again, f"{stage}{kind}{i} is there {counts[kind]} times")
            if not counts["F"]:
                yield _missing(subject, stage, i, f"{stage}F{i} is missing")
            if not subject.trains:
                continue
            if counts["B"] and (counts["I"] or counts["W"]):
                both = (subject.find("I", stage, i) + subject.find("W", stage, i))[0]
                yield subject.finding(
                    "V1", both, f"{stage}B{i} is there too, which is already {stage}I{i} and {stage}W{i}"
                )
            elif not counts["B"] and not (counts["I"] and counts["W"]):
                lacks = " and ".join([f"{stage}{kind}{i}" for kind in "IW" if not counts[kind]])
                whole = f", or {stage}B{i} for both," if lacks.count(str(stage) + "I") else ""
                yield _missing(subject, stage, i, f"{lacks}{whole} is missing")


def _missing(subject: Subject, stage: int, microbatch: int, what: str) -> Finding:
    """Return a finding about what is not there, at the rank where it should be."""
    near = [place for kind in "FIWB" for place in subject.find(kind, stage, microbatch)]
    owner = subject.program.placement.get(stage)
    if near:
        return subject.finding("V1", near[0], what)
    return Finding("V1", owner, None, None, what, "")


def find_in_order(subject: Subject) -> Iterator[Finding]:
    """V2: a rank does F before I or B, and I before W."""
    for (kind, stage, i), places in subject.places.items():
        before = {"I": "F", "B": "F", "W": "I"}.get(kind)
        for at in places:
            for first in subject.find(before, stage, i) if before else ():
                if first.rank == at.rank and not _precedes(first, at):
                    yield subject.finding(
                        "V2", at, f"{before} must come first, and {first.action} is at place {first.place}"
                    )


def _precedes(first: Place, second: Place) -> bool:
    """Whether one action comes before another of its rank, or is an earlier part of the same."""
    if first.place != second.place:
        return first.place < second.place
    return first.action.kind == "F"  # the forward of an OVERLAP_F_B is its first part


def find_in_placement(subject: Subject, replicas: int, ranks: int | None) -> Iterator[Finding]:
    """V3 and V4: a stage's rank, the stages and microbatches that there are, the number of ranks."""
    if ranks is not None and ranks != len(subject.program):
        what = f"wanted {ranks} ranks, got actions of {len(subject.program)}"
        yield Finding("V4", None, None, None, what, "")
    homes: dict[int, dict[int, Place]] = {}
    owners: dict[tuple[int, int], int] = {}
    for (kind, stage, i), places in sorted(subject.places.items(), key=lambda each: each[1][0][:2]):
        for at in places:
            if stage >= subject.stages or i >= subject.microbatches:
                yield subject.finding(
                    "V3", at, f"there are {subject.stages} stages and {subject.microbatches} microbatches"
                )
            homes.setdefault(stage, {}).setdefault(at.rank, at)
            owner = owners.setdefault((stage, i), at.rank)
            if owner != at.rank and not (kind == "F" and len(places) > 1):
                yield subject.finding("V3", at, f"microbatch {i} of stage {stage} is on rank {owner}")
    for stage in range(subject.stages):
        found = homes.get(stage, {})
        if not found:
            yield Finding("V3", None, None, None, f"stage {stage} is on no rank", "")
        elif len(found) > replicas:
            at = found[sorted(found)[replicas]]
            where = " and ".join(map(str, sorted(found)))
            yield subject.finding("V3", at, f"stage {stage} is on ranks {where}; wanted {replicas}")


def find_in_format(subject: Subject) -> Iterator[Finding]:
    """V5: no transfers in a program that is only computed."""
    for rank, actions in enumerate(subject.program):
        for place, action in enumerate(actions):
            if action.kind in COMMUNICATION:
                what = f"{action.kind} is a transfer, and the format is compute_only; lower() writes them"
                yield subject.finding("V5", Place(rank, place, action), what)
