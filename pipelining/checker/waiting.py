"""V6 and V7: that ranks come to an end, alone and on links of every model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardwise.pipelining.action import COMMUNICATION, COMPUTE, Action
from shardwise.pipelining.checker.counting import Place, Subject
from shardwise.pipelining.checker.finding import Finding, picture
from shardwise.pipelining.link import LinkModel, run_on_links
from shardwise.pipelining.need import Event, Skips, carried, needs, results, taker
from shardwise.pipelining.program import Program

__all__ = ["find_circle", "find_in_links", "find_in_transfers"]


def find_circle(subject: Subject) -> Iterator[Finding]:
    """V6: run the ranks with links that lose no time; if they stop, tell who waits for whom."""
    program = subject.program
    at, done = _run(program, subject.stages, subject.skips)
    stuck = [rank for rank, actions in enumerate(program) if at[rank] < len(actions)]
    if not stuck:
        return
    chain = _chain(program, subject, at, done, stuck[0])
    shown = picture(program, {rank: at[rank] for rank in stuck})
    rank = stuck[0]
    yield Finding("V6", rank, at[rank], program.ranks[rank][at[rank]], " ← ".join(chain), shown)


def _run(program: Program, stages: int, skips: Skips) -> tuple[list[int], set[Event]]:
    """Return how far each rank comes, and what has happened then."""
    at, done = [0] * len(program), set[Event]()
    progress = True
    while progress:
        progress = False
        for rank, actions in enumerate(program):
            while at[rank] < len(actions) and not _lacks(actions[at[rank]], stages, skips, done):
                for part in actions[at[rank]].compute:
                    if part.kind in COMPUTE:
                        done.update(results(part, skips))
                at[rank] += 1
                progress = True
    return at, done


def _lacks(action: Action, stages: int, skips: Skips, done: set[Event]) -> list[Event]:
    """Return what an action waits for."""
    own: set[Event] = set()
    missing: list[Event] = []
    for part in action.compute:
        if part.kind in COMPUTE:
            missing += [need for need in needs(part, stages, skips) if need not in done and need not in own]
            own.update(results(part, skips))
    return missing


def _chain(program: Program, subject: Subject, at: Sequence[int], done: set[Event], rank: int) -> list[str]:
    """Follow who waits for whom, from a rank until it comes back to where it was."""
    text: list[str] = []
    seen: set[int] = set()
    while rank not in seen:
        seen.add(rank)
        head = program.ranks[rank][at[rank]]
        text.append(f"rank {rank} {'waits at' if len(text) == 0 else 'at'} {head}")
        kind, stage, i = _lacks(head, subject.stages, subject.skips, done)[0]
        wanted = [
            p for each in (kind[0], "B") for p in subject.find(each, stage, i) if kind[0] in ("I", each)
        ]
        if not wanted:
            return [*text, f"{stage}{kind}{i} (nowhere)"]
        bringer = wanted[0]
        text.append(f"rank {bringer.rank} {bringer.action} (not issued)")
        rank = bringer.rank
    return text


def find_in_transfers(subject: Subject) -> Iterator[Finding]:
    """V7, on paper: sends and receives in pairs, behind what they carry and before what needs it."""
    program, owners = subject.program, subject.program.owners
    ends: dict[Event, dict[str, list[Place]]] = {}
    for rank, actions in enumerate(program):
        have: set[Event] = set()
        for place, action in enumerate(actions):
            here = Place(rank, place, action)
            if action.kind in COMMUNICATION:
                yield from _find_at(subject, here, owners, have)
                ends.setdefault(carried(action), {}).setdefault(action.kind[:4], []).append(here)
                if action.kind.startswith("RECV"):
                    have.add(carried(action))
            else:
                missing = _lacks(action, subject.stages, subject.skips, have)
                foreign = [each for each in missing if owners.get(each[1:]) not in (None, rank)]
                for kind, stage, i in foreign:
                    name = "RECV_F" if kind[0] == "F" else "RECV_B"
                    yield subject.finding(
                        "V7", here, f"{stage}{kind}{i} of another rank has no {name} before"
                    )
                for part in action.compute:
                    if part.kind in COMPUTE:
                        have.update(results(part, subject.skips))
    for pair in ends.values():
        sends, receives = pair.get("SEND", []), pair.get("RECV", [])
        if (len(sends), len(receives)) != (1, 1):
            what = f"wanted one send and one receive, got {len(sends)} and {len(receives)}"
            yield subject.finding("V7", (sends + receives)[0], what)


def _find_at(
    subject: Subject, here: Place, owners: dict[tuple[int, int], int], have: set[Event]
) -> Iterator[Finding]:
    rank, _, action = here
    sends = action.kind.startswith("SEND")
    if sends and carried(action) not in have:
        yield subject.finding("V7", here, "it is sent before it is computed")
    (_, source, i), (_, target) = carried(action), taker(carried(action))
    other = owners.get((target if sends else source, i))
    if other is None:
        yield subject.finding("V7", here, f"stage {target if sends else source} is not there")
    elif other == rank:
        yield subject.finding("V7", here, f"stages {source} and {target} are both on rank {rank}")


def find_in_links(subject: Subject, models: Sequence[LinkModel]) -> Iterator[Finding]:
    """V7, on links: run the program on each model; what stands still for ever is drawn."""
    for model in models:
        waits = run_on_links(subject.program, model)
        if waits:
            first = waits[0]
            marks: dict[int, int] = {}
            for wait in waits:
                marks.setdefault(wait.rank, wait.place)
            what = f"on links of model {model!r} it never ends: {'; '.join(map(str, waits[:4]))}"
            yield Finding("V7", first.rank, first.place, first.action, what, picture(subject.program, marks))
