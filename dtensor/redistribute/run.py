"""`run`: carry out a plan on this rank's array."""

from __future__ import annotations

from typing import ClassVar, cast

from shardwise.backend.array import Array
from shardwise.collectives import Conversion, Work, World, get_world
from shardwise.collectives.ledger import conversion
from shardwise.collectives.timeout import Timeout
from shardwise.dtensor.redistribute.plan import Plan
from shardwise.dtensor.redistribute.step import Step
from shardwise.dtensor.redistribute.task import Task, task_of

__all__ = ["Redistribution", "issued", "run", "start", "tasks"]


def run(plan: Plan, local: Array) -> Array:
    """Give this rank's new local array. All ranks of both meshes call it, in the same order.

    Parameters
    ----------
    plan : Plan
    local : array, shape ``plan.source.local_shape(coordinate)``
        Of any kind. It is not written.

    Returns
    -------
    array, shape ``plan.target.local_shape(coordinate)``
        Where ``plan.aliases``, `local` itself or a view of it; else a new array, which belongs to the caller.
        Ranks outside the target mesh get an empty one of shape (0,).

    Raises
    ------
    CollectiveError
        If an operation failed.

    Notes
    -----
    Sends what ``plan.bytes`` says. A `ShapeArray` moves nothing and gives the shape, and the records of what
    would move.
    """
    if not plan.steps:
        return local
    world = get_world()
    for task, change in tasks(plan, world.rank):
        work = issued(task, change, local, world, False)
        local = task.finish(local, None if work is None else work.wait())
    return local


def start(plan: Plan, local: Array) -> Redistribution:
    """Begin to carry out a plan; the operations of its first step go on while this rank computes.

    Returns
    -------
    Redistribution
        ``wait()`` gives the array. All ranks wait at the same place among their operations, since further
        steps are issued there. `local` must not be written before.
    """
    return Redistribution(plan, local)


class Redistribution:
    """A handle on a change of layout; made by `start`."""

    stays: ClassVar[bool] = False  # what `wait` gives takes the place of this

    def __init__(self, plan: Plan, local: Array) -> None:
        self.plan = plan
        self._world = get_world()
        self._tasks = list(tasks(plan, self._world.rank)) if plan.steps else []
        self._local = local
        self._work: Work[Array] | None = None
        self._begin()

    def _begin(self) -> None:
        """Do what needs no one else, and issue the next operation."""
        while self._tasks:
            task, change = self._tasks[0]
            self._work = issued(task, change, self._local, self._world, True)
            if self._work is not None:
                return
            self._local = task.finish(self._local, None)
            self._tasks.pop(0)

    def is_completed(self) -> bool:
        """Say whether `wait` would return without waiting."""
        return not self._tasks or (
            len(self._tasks) == 1 and self._work is not None and self._work.is_completed()
        )

    def wait(self, timeout: Timeout | None = None) -> Array:
        """Wait for the end and return this rank's new local array, each time the same.

        Raises
        ------
        CollectiveTimeoutError
            If an operation has not ended in time; it may be waited for again.
        CollectiveError
            If one failed.
        """
        while self._tasks:
            came = None if self._work is None else self._work.wait(timeout)
            task, _ = self._tasks.pop(0)
            self._local = task.finish(self._local, came)
            self._work = None
            self._begin()
        return self._local


def issued(
    task: Task, change: Conversion | None, local: Array, world: World, background: bool
) -> Work[Array] | None:
    """Begin a task, and have the ledger say which layout becomes which."""
    if change is None:
        return None
    token = conversion.set(change)
    try:
        return task.issue(local, world, background)
    finally:
        conversion.reset(token)


def tasks(plan: Plan, rank: int) -> tuple[tuple[Task, Conversion | None], ...]:
    """Give what a rank does in each step, found out once; with what the ledger says, if ranks talk in it."""
    found = plan.tasks.get(rank)
    if found is None:
        found = plan.tasks[rank] = tuple([(task_of(step, rank), _change(step)) for step in plan.steps])
    return cast(tuple[tuple[Task, Conversion | None], ...], found)


def _change(step: Step) -> Conversion | None:
    return Conversion(str(step.source), str(step.target), step.seconds) if step.communicates else None
