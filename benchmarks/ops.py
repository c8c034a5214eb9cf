"""Every op beside torch: the kernel alone, and the whole op forward and backward.

Both sides are in one process, on one thread and the same core, and take turns. The clock is that of the
thread: what else the core does costs no more than what it does to the caches. The C library was told once to
keep freed memory (`shardwise.backend.allocator.keep_pages`), for both. A kernel writes into an array that was
there before; an op is what users call, with the tape and the memory of its results.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from contest.basic_operations import basic_operations
from contest.library import Library, ours
from contest.network_operations import network_operations, products
from contest.operation import Arrays, Draw, Operation
from contest.options import parser, peer_present, result, write
from contest.our_kernels import OURS
from contest.rounds import Rounds, ratio
from contest.update import updates
from table import Result
from threadpoolctl import threadpool_limits

from shardwise.backend.allocator import keep_pages

Thunk = Callable[[], object]
Thunks = Mapping[str, Thunk]  # by side

LAP = 0.5e-3  # seconds that a lap takes at least: short calls are repeated
SIZES = {"": (2048, 1024), "small ": (64, 256)}
TINY = {"": (4, 8), "small ": (2, 8)}


def take_turns(sides: Thunks, rounds: int, laps: int, lap: float) -> dict[str, Rounds]:
    """Time what each side does, in turns; a turn begins with a call that does not count.

    Returns
    -------
    dict of str to Rounds
        Microseconds a call, by side.
    """
    took: dict[str, list[list[float]]] = {side: [] for side in sides}
    repeats = {}
    for side, call in sides.items():
        call()
        start = time.thread_time()
        call()
        repeats[side] = max(1, int(lap / max(time.thread_time() - start, 1e-7)))
    for _ in range(rounds):
        for side, call in sides.items():
            call()
            times = []
            for _ in range(laps):
                start = time.thread_time()
                for _ in range(repeats[side]):
                    call()
                times.append((time.thread_time() - start) / repeats[side] * 1e6)
            took[side].append(times)
    return {side: Rounds(times) for side, times in took.items()}


class Limits:
    """What the machine can do, measured now: bytes a second in a copy, operations a second in a product."""

    def __init__(self, tiny: bool) -> None:
        n, cube = (1 << 10, 16) if tiny else (1 << 21, 1024)
        x, y = np.ones(n, np.float32), np.ones(n, np.float32)
        copy = take_turns({"ours": lambda: np.copyto(y, x)}, 5, 5, LAP)["ours"]
        self.bandwidth = 2 * x.nbytes / copy.median * 1e6
        a, c = np.ones((cube, cube), np.float32), np.ones((cube, cube), np.float32)
        multiply = take_turns({"ours": lambda: np.matmul(a, a, out=c)}, 5, 3, LAP)["ours"]
        self.rate = 2 * cube**3 / multiply.median * 1e6
        print(f"a copy moves {self.bandwidth / 1e9:.1f} GB/s, a product {self.rate / 1e9:.1f} GFLOP/s")

    def of(self, bytes_: int, flops: int) -> float:
        """Return the microseconds that so much takes at least."""
        return max(bytes_ / self.bandwidth, flops / self.rate) * 1e6


def thunks_of(operation: Operation, libraries: Mapping[str, Library]) -> Iterator[tuple[str, Thunks, int]]:
    """Yield what is timed of an operation: its name, what each side does, and the bytes that it moves."""
    arrays = operation.inputs(Draw())
    pairs = {side: both_directions(operation, library, arrays) for side, library in libraries.items()}
    there, back = operation.least_bytes(arrays, pairs["ours"].result_bytes)
    family = re.split(" of | over ", operation.name)[0]
    # Alone, a backward whose gradient the forward would have made reads what that reads.
    alone = there + back if operation.free else back
    for direction, bytes_ in (("forward", there), ("backward", alone)):
        if (family, direction) in OURS:
            makers = {side: library.kernels[family, direction] for side, library in libraries.items()}
            yield f"kernel {direction}", {side: make(*arrays) for side, make in makers.items()}, bytes_
    yield "forward", {side: pair.forward for side, pair in pairs.items()}, there
    yield "backward", {side: pair.backward for side, pair in pairs.items()}, back


class Pair(NamedTuple):
    """One side's op, and what its result takes in memory."""

    forward: Thunk
    backward: Thunk
    result_bytes: int


def both_directions(operation: Operation, library: Library, arrays: Arrays) -> Pair:
    """Make an op something to call: its forward, and the backward of a result that was made once."""
    tensors = [library.leaf(array) for array in arrays]
    leaves = [tensor for tensor in tensors if tensor.requires_grad]
    output: Any = operation.call(library, *tensors)
    gradient = library.root.ones_like(output.detach())
    return Pair(
        lambda: operation.call(library, *tensors),
        lambda: library.grad([output], leaves, [gradient], retain_graph=True),
        output.numel() * output.element_size(),
    )


def measure(
    operations: Sequence[Operation],
    libraries: Mapping[str, Library],
    limits: Limits,
    prefix: str,
    options: Namespace,
) -> Iterator[Result]:
    """Measure operations, print a line of each, and yield them."""
    for operation in operations:
        for what, sides, bytes_ in thunks_of(operation, libraries):
            took = take_turns(sides, options.rounds, options.steps, 0.0 if options.tiny else LAP)
            flops = operation.flops * (2 if "backward" in what else 1)
            # What is small is bound by calls, not by memory.
            free = operation.free and what == "backward"
            limit = None if prefix or free else limits.of(bytes_, flops)
            yield show(f"{prefix}{operation.name}: {what}", took, limit)
        gc.collect()


def show(name: str, took: Mapping[str, Rounds], limit: float | None) -> Result:
    """Print how one thing went, and make a line of the table of it."""
    own, peer = took["ours"], took.get("torch")
    line = f"{name:<52} {own.median:>10,.1f} us"
    if peer is not None:
        line += f"  torch {peer.median:>10,.1f}  ratio {ratio(own, peer)}"
    print(line, flush=True)
    return result(name, "us", own.median, None if peer is None else peer.median, limit)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    made = parser(__doc__.splitlines()[0], rounds=7, steps=5)
    made.add_argument("--only", nargs="+", metavar="OP", help="operations whose names begin so")
    options = made.parse_args(argv)
    keep_pages()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    libraries = {"ours": ours()}
    if peer_present(options):
        from contest.torch_library import peer  # loads torch

        libraries["torch"] = peer()
    gc.disable()  # what is left over is collected between operations
    with threadpool_limits(1):  # of BLAS and OpenMP, on both sides
        results = list(everything(libraries, options))
    write(options, results)
    return 0


def everything(libraries: Mapping[str, Library], options: Namespace) -> Iterator[Result]:
    """Measure all that was asked for."""
    limits = Limits(options.tiny)
    for prefix, (rows, columns) in (TINY if options.tiny else SIZES).items():
        operations = basic_operations(rows, columns) + network_operations(rows, columns, options.tiny)
        if not prefix:
            operations += products(options.tiny)
        yield from measure(wanted(operations, options.only), libraries, limits, prefix, options)
    for name, sides, bytes_ in updates(libraries, options.tiny, options.only):
        took = take_turns(sides, options.rounds, options.steps, 0.0)
        yield show(name, took, limits.of(bytes_, 0))


def wanted(operations: Sequence[Operation], only: Sequence[str] | None) -> list[Operation]:
    """Return those that were asked for."""
    return [o for o in operations if only is None or o.name.startswith(tuple(only))]


if __name__ == "__main__":
    sys.exit(main())
