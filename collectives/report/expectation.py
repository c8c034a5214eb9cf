"""`expect`: a test's word on what a block of code may move."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from shardwise.backend.errors import ArgumentError, ExpectationError
from shardwise.collectives.context import get_world
from shardwise.collectives.report.explanation import Explanation
from shardwise.collectives.table import COLLECTIVES

__all__ = ["expect"]

_OBJECT = "_object"


@contextmanager
def expect(
    *,
    max_bytes: int | None = None,
    total_bytes: int | None = None,
    implicit: int | None = None,
    others: int | None = None,
    **ops: int,
) -> Iterator[Explanation]:
    """Compare what a ``with`` block moves with what it should, when the block ends.

    Each rank compares what it has issued itself. An exception in the block passes through as it is.

    Parameters
    ----------
    max_bytes : int, optional
        The most bytes that this rank may have to send.
    total_bytes : int, optional
        Just how many it must be.
    implicit : int, optional
        Number of operations that nobody asked for by name: layout conversions, gradient buckets.
    others : int, optional
        Number of operations that are not in `ops`. Not compared by default.
    **ops : int
        How many times each op runs: ``all_reduce=2``, ``barrier=0``, ``all_gather_object=1``.

    Yields
    ------
    Explanation

    Raises
    ------
    ExpectationError
        At the end of the block: says what differs and draws the table of what moved.
    ArgumentError
        At once: there is no such op, or a number is negative.

    Examples
    --------
    >>> import numpy as np
    >>> import shardwise as sw
    >>> with sw.expect(all_reduce=1, others=0, max_bytes=0):
    ...     _ = sw.all_reduce(np.ones(4, np.float32))  # of one rank: nothing has to be sent
    """
    limits = {"max_bytes": max_bytes, "total_bytes": total_bytes, "implicit": implicit, "others": others}
    _check(limits, ops)
    world = get_world()
    moved = Explanation(world, compute=False)
    with moved:
        yield moved
    differences = _differences(moved, limits, ops)
    if differences:
        raise ExpectationError(
            f"expect on rank {world.rank} of {world.size}: {'; '.join(differences)}. This is what moved; "
            f"change the code, or what is expected of it:\n{moved.table()}"
        )


def _check(limits: Mapping[str, int | None], ops: Mapping[str, int]) -> None:
    for name in ops:
        if name.removesuffix(_OBJECT) not in COLLECTIVES:
            near = difflib.get_close_matches(name, COLLECTIVES, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COLLECTIVES)}."
            raise ArgumentError(f"expect: there is no op {name!r}; {hint}")
    for name, wanted in (*limits.items(), *ops.items()):
        if wanted is not None and (not isinstance(wanted, int) or wanted < 0):
            raise ArgumentError(f"expect: {name}={wanted!r}; wanted a number that is not negative.")


def _differences(moved: Explanation, limits: Mapping[str, int | None], ops: Mapping[str, int]) -> list[str]:
    ran = Counter(record.op for record in moved.records)
    said = [
        f"{op} ran {_times(ran[op])}, wanted {_times(wanted)}"
        for op, wanted in ops.items()
        if ran[op] != wanted
    ]
    rest = {op: times for op, times in ran.items() if op not in ops}
    wanted = limits["others"]
    if wanted is not None and sum(rest.values()) != wanted:
        named = f" ({', '.join(f'{op} {_times(times)}' for op, times in rest.items())})" if rest else ""
        said.append(f"others ran {_times(sum(rest.values()))}{named}, wanted {_times(wanted)}")
    unasked = sum(record.implicit for record in moved.records)
    wanted = limits["implicit"]
    if wanted is not None and unasked != wanted:
        said.append(f"{unasked} {'was' if unasked == 1 else 'were'} implicit, wanted {wanted}")
    sent = moved.total_bytes()
    for name, wanted in (("at most ", limits["max_bytes"]), ("", limits["total_bytes"])):
        if wanted is not None and (sent > wanted if name else sent != wanted):
            said.append(f"{sent} bytes had to be sent, wanted {name}{wanted}")
    return said


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
