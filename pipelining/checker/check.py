"""`check`: everything that is wrong with a program; `require_valid`: the same as an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.checker.counting import (
    Subject,
    find_in_counts,
    find_in_format,
    find_in_order,
    find_in_placement,
)
from shardwise.pipelining.checker.finding import Finding
from shardwise.pipelining.checker.holding import find_in_memory, find_in_reductions, find_in_sharding
from shardwise.pipelining.checker.waiting import find_circle, find_in_links, find_in_transfers
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.link import LINK_MODELS, LinkModel
from shardwise.pipelining.lowering import add_transfers
from shardwise.pipelining.program import Format, Program

__all__ = ["check", "require_valid"]


def check(
    program: Program,
    *,
    ranks: int | None = None,
    stages: int | None = None,
    microbatches: int | None = None,
    format: Format = "compute_comms",
    replicas: int = 1,
    links: Sequence[LinkModel] = LINK_MODELS,
    memory: float | Sequence[float] | None = None,
    costs: Costs | None = None,
) -> list[Finding]:
    """Find everything that is wrong with a program, without running it.

    Parameters
    ----------
    program : Program
        Lowered or not; one that only computes is also lowered and tried on the links.
    ranks, stages, microbatches : int, optional
        What it should have; as many as it names, if not given.
    format : Format
        ``compute_only`` refuses transfers.
    replicas : int
        Ranks that may hold the same stage: 2 for bidirectional schedules.
    links : sequence of LinkModel
        Models of links on which it must end.
    memory : float or sequence of float, optional
        Cap on the activations of each rank, in units of ``costs.activation``.
    costs : Costs, optional
        What forwards keep; one unit each, if not given.

    Returns
    -------
    list of Finding
        In the order of the rules V1 to V10; empty if nothing is wrong.

    Examples
    --------
    >>> print(check(Program.from_text("0F0,0B0\\n1B0,1F0"))[0])
    V2 rank 1, place 0 (1B0): F must come first, and 1F0 is at place 1
    rank 1 | [1B0] 1F0
    """
    subject = Subject(program, stages, microbatches)
    found = [*find_in_counts(subject), *find_in_order(subject)]
    found += find_in_placement(subject, replicas, ranks)
    if format == "compute_only":
        found += find_in_format(subject)
    whole = not found
    circle = list(find_circle(subject))
    found += circle
    # Links are tried only with programs that would end without them: the same stop would be told five times.
    if program.has_transfers:
        found += find_in_transfers(subject)
        if whole and not circle:
            found += find_in_links(subject, links)
    elif whole and not circle:
        found += find_in_links(Subject(add_transfers(program), stages, microbatches), links)
    found += _find_held(subject, memory, costs)
    return found


def _find_held(
    subject: Subject, memory: float | Sequence[float] | None, costs: Costs | None
) -> Iterator[Finding]:
    yield from find_in_sharding(subject)
    yield from find_in_reductions(subject)
    if memory is not None:
        yield from find_in_memory(subject, memory, costs or Costs())


def require_valid(
    program: Program,
    *,
    ranks: int | None = None,
    stages: int | None = None,
    microbatches: int | None = None,
    format: Format = "compute_comms",
    replicas: int = 1,
    links: Sequence[LinkModel] = LINK_MODELS,
    memory: float | Sequence[float] | None = None,
    costs: Costs | None = None,
) -> None:
    """Raise if `check` finds anything; its arguments are those of `check`.

    Raises
    ------
    ScheduleError
        All findings, each with rank, place, action and picture.
    """
    found = check(
        program, ranks=ranks, stages=stages, microbatches=microbatches, format=format, replicas=replicas,
        links=links, memory=memory, costs=costs,
    )  # fmt: skip
    if found:
        count = "1 thing is" if len(found) == 1 else f"{len(found)} things are"
        raise ScheduleError("\n".join([f"{count} wrong with this program:", *map(str, found[:20])]))
