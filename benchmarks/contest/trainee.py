"""What a side can be told to do: the seam between the workers and the two ways to do the task."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from contest.task import Task

__all__ = ["Lap", "Trainee", "rate_of_product"]

_SHORTEST = 0.02  # seconds over which the rate of a product is taken, at least


class Lap(NamedTuple):
    """One step: its loss, and the seconds of its three phases. Making the batch is not in them."""

    loss: float
    forward: float
    backward: float
    optimizer: float

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.forward + self.backward + self.optimizer


class Trainee(Protocol):
    """One rank of one side, with a model whose weights the task gave.

    Attributes
    ----------
    rank, size : int
        Its place, and the number of ranks that train the same model.
    """

    rank: int
    size: int

    def step(self, synchronised: bool = True) -> Lap:
        """Train on the next batch; if not `synchronised`, gradients stay on their rank."""

    def barrier(self) -> None:
        """Wait for the other ranks."""

    def all_reduce(self) -> float:
        """Return the seconds of one all-reduce of as many numbers as the model has."""

    def product(self) -> float:
        """Return the floating-point operations a second of the task's largest matrix product."""

    def close(self) -> None:
        """Leave the world."""


def rate_of_product(task: Task, multiply: Callable[[], object]) -> float:
    """Time `multiply`, which does the task's largest product; the median of many, after one untimed.

    Returns
    -------
    float
        Floating-point operations a second, two for each multiplication with its addition.
    """
    multiply()
    laps: list[float] = []
    while sum(laps) < _SHORTEST:
        start = time.perf_counter()
        multiply()
        laps.append(time.perf_counter() - start)
    rows, inner, columns = task.product
    return 2 * rows * inner * columns / statistics.median(laps)
