"""Find out where a step of ours spends its time: by op, in matrix products, and outside of ops.

The ops of a step are listed as they come through the door (`shardwise.tensor.intercept`); then their
formulas, and ``numpy.matmul`` which these use, are replaced by themselves between two looks at the
clock. That costs less than a microsecond a call. Still the steps of a profile are never those that
are compared, and what they took is reported beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np

from contest.profile import Profile, Spent
from contest.trainee import Trainee
from shardwise.tensor import Function, intercept
from shardwise.tensor.signature import FlopCounter

__all__ = ["profile"]


@dataclass(slots=True)
class _Stopwatch:
    """Adds up the time between calls and returns; a formula inside another counts as the outer one."""

    spent: list[Spent] = field(default_factory=list)
    running: Spent | None = None

    def formula(self, op: str, direction: str, run: Callable[..., object]) -> Callable[..., object]:
        """Make `run` count as a formula of `op`."""
        mine = Spent(op, direction)
        self.spent.append(mine)

        def timed(*args: object, **params: object) -> object:
            if self.running is not None:
                return run(*args, **params)
            self.running = mine
            start = time.perf_counter()
            try:
                return run(*args, **params)
            finally:
                mine.seconds += time.perf_counter() - start
                mine.calls += 1
                self.running = None

        return timed

    def product(self, run: Callable[..., object]) -> Callable[..., object]:
        """Make `run` count as a matrix product of the formula that calls it."""

        def timed(*args: object, **params: object) -> object:
            start = time.perf_counter()
            result = run(*args, **params)
            if self.running is not None:
                self.running.products += time.perf_counter() - start
            return result

        return timed


def profile(trainee: Trainee, steps: int) -> Profile:
    """Do `steps` steps, after two that tell which ops there are, and say where they spent their time.

    Parameters
    ----------
    trainee : Trainee
        One of ours.
    steps : int
    """
    with FlopCounter() as counter:
        trainee.step()
    functions: dict[type[Function], None] = {}

    def notice(function: type[Function], args: tuple[object, ...], params: dict[str, object]) -> object:
        functions[function] = None
        return function.apply(*args, **params)

    with intercept(notice):
        trainee.step()
    with _timed(functions) as watch:
        laps = [trainee.step() for _ in range(steps)]
    spent = tuple(
        replace(one, seconds=one.seconds / steps, products=one.products / steps, calls=one.calls / steps)
        for one in watch.spent
    )
    _, forward, backward, optimizer = (sum(values) / steps for values in zip(*laps, strict=True))
    return Profile(spent, counter.by_op, forward, backward, optimizer)


@contextmanager
def _timed(functions: Iterable[type[Function]]) -> Iterator[_Stopwatch]:
    watch = _Stopwatch()
    with ExitStack() as stack:
        for function in functions:
            for direction, run in (("forward", function.forward), ("backward", function.backward)):
                timed = staticmethod(watch.formula(function.__name__, direction, run))
                stack.enter_context(mock.patch.object(function, direction, timed))
        stack.enter_context(mock.patch.object(np, "matmul", watch.product(np.matmul)))
        yield watch
