"""Functions that tests send to other processes, which find them here by name."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

import shardwise as sw
from shardwise import collectives

__all__ = [
    "Stubborn",
    "die_on",
    "fail_on",
    "fail_stubbornly",
    "give_lambda",
    "greet",
    "leave",
    "ramp",
    "sum_over_ranks",
    "wait",
]


class Stubborn(Exception):
    """Takes other arguments than it hands on, so that no pickle of it can be read."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def sum_over_ranks(rank: int, base: int) -> tuple[int, int, int]:
    """This rank, the size of the world, and the sum of ``base + rank`` over it."""
    total = collectives.all_reduce(np.array(base + rank))
    return sw.rank(), sw.world_size(), int(total)


def ramp(rank: int, count: int, dtype: str) -> npt.NDArray[np.generic]:
    """``rank, rank + 1, ...``."""
    return np.arange(rank, rank + count).astype(dtype)


def fail_on(rank: int, which: int) -> None:
    """Fail on one rank while the others wait for it."""
    if rank == which:
        raise ZeroDivisionError(f"on rank {rank}")
    collectives.barrier()


def fail_stubbornly(rank: int) -> None:
    """Fail with an error that cannot be pickled."""
    raise Stubborn("a", "b")


def give_lambda(rank: int) -> Callable[[], int]:
    """Return what cannot be pickled."""
    return lambda: rank


def leave(rank: int, code: int) -> None:
    """Exit instead of returning, all at one moment."""
    collectives.barrier()
    sys.exit(code)


def die_on(rank: int, which: int, number: int) -> None:
    """Be killed on one rank while the others wait for it."""
    if rank == which:
        os.kill(os.getpid(), number)
    collectives.barrier()


def wait(rank: int, folder: str, seconds: float) -> None:
    """Leave a file named by this process, and sleep."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(seconds)


def greet(rank: int) -> None:
    """Print to both streams."""
    print("hello")
    print("quietly", file=sys.stderr)
