"""What recording an op costs: a chain of 1,000 additions of four numbers, forward and backward.

All take turns in one process: NumPy adding the same arrays, ours with one tracked operand and with both, and
torch likewise. What counts is how many times as long as NumPy's the others take, by the clock of the thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from contest.options import parser, peer_present, result, write
from contest.rounds import Rounds, ratio
from table import Result

import shardwise as sw

LENGTH, ELEMENTS = 1000, 4
ALLOWED = 8.0  # times as long as NumPy
NUMPY = "np.add"
ONE, BOTH = "one operand tracked", "both operands tracked"


def numpy_chain(length: int) -> Callable[[], list[float]]:
    """Make a chain of NumPy's something to time; it has no backward."""
    x, y = np.ones(ELEMENTS, np.float32), np.ones(ELEMENTS, np.float32)

    def run() -> list[float]:
        z = x
        start = time.thread_time()
        for _ in range(length):
            z = np.add(z, y)
        return [time.thread_time() - start]

    return run


def chain(make: Callable[[Any], Any], length: int, both: bool) -> Callable[[], list[float]]:
    """Make a chain of tensors something to time: seconds of its forward and of its backward.

    Parameters
    ----------
    make : callable
        Makes a tensor of an array.
    length : int
    both : bool
        Whether what is added requires grad too.
    """
    x, y = (make(np.ones(ELEMENTS, np.float32)) for _ in range(2))
    gradient = make(np.ones(ELEMENTS, np.float32))
    x.requires_grad_()
    y.requires_grad_(both)

    def run() -> list[float]:
        z = x
        start = time.thread_time()
        for _ in range(length):
            z = z + y
        middle = time.thread_time()
        z.backward(gradient)
        end = time.thread_time()
        x.grad = y.grad = None
        return [middle - start, end - middle]

    return run


def compared(took: Mapping[tuple[str, str], Sequence[Rounds]], sides: Sequence[str]) -> list[Result]:
    """Print what each took over NumPy, and make lines of the table of it."""
    [numpy] = took[NUMPY, "ours"]
    print(f"{NUMPY}: {numpy.show('us')} a call")
    results: list[Result] = []
    for what in (ONE, BOTH):
        for direction, name in enumerate(("forward", "backward")):
            times = {}
            for side in sides:
                over = ratio(took[what, side][direction], numpy)
                times[side] = over.value
                print(f"{what}, {name}, {side}: {over} times {NUMPY}")
            print(f"{what}, {name}: {ALLOWED:.0f} times are allowed")
            results.append(
                result(f"an addition, {what}: {name}", "x np.add", times["ours"], times.get("torch"))
            )
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    options = parser(__doc__.splitlines()[0], rounds=15, steps=5).parse_args(argv)
    length = 20 if options.tiny else LENGTH
    makers: dict[str, Callable[[Any], Any]] = {"ours": sw.from_numpy}
    if peer_present(options):
        import torch

        makers["torch"] = torch.from_numpy
    chains = {(NUMPY, "ours"): numpy_chain(length)}
    for side, make in makers.items():
        chains |= {(what, side): chain(make, length, what == BOTH) for what in (ONE, BOTH)}
    laps: dict[tuple[str, str], list[list[list[float]]]] = {name: [] for name in chains}
    for _ in range(options.rounds):
        for name, run in chains.items():
            run()
            laps[name].append([run() for _ in range(options.steps)])
    took = {name: by_direction(turns, length) for name, turns in laps.items()}
    write(options, compared(took, list(makers)))
    return 0


def by_direction(turns: Sequence[Sequence[Sequence[float]]], length: int) -> list[Rounds]:
    """Sort the seconds of laps into microseconds of an addition, forward and backward."""
    directions = range(len(turns[0][0]))
    return [Rounds([[lap[i] / length * 1e6 for lap in turn] for turn in turns]) for i in directions]


if __name__ == "__main__":
    sys.exit(main())
