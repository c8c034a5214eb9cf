"""One rank of the benchmark of collectives: ours, MPI's own and gloo's take turns in the same processes.

Run by ``collectives.py`` on every rank; rank 0 prints one line of JSON.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise import collectives
from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveTimeoutError

__all__ = ["main"]

Call = Callable[[], object]

_LONG, _SHORT = 4e6, 20_000  # bytes that one turn moves, and what a call counts at least
_MOST = 100  # calls in a turn


def ours(size: int, n: int) -> dict[str, Call]:
    """Every collective of ours, on `size` float32 of a rank: in ordinary arrays, and in symmetric ones."""
    calls: dict[str, Call] = {}
    for kind, make in (("ordinary", _zeros), ("symmetric", collectives.empty_symmetric)):
        x, whole, part = make(size), make(size * n), make(size // n)
        swapped = make(size)
        calls |= {
            f"all_reduce, {kind}": lambda x=x: collectives.all_reduce(x, out=x),
            f"all_gather, {kind}": lambda x=x, whole=whole: collectives.all_gather(x, out=whole),
            f"reduce_scatter, {kind}": lambda x=x, part=part: collectives.reduce_scatter(x, out=part),
            f"all_to_all, {kind}": lambda x=x, out=swapped: collectives.all_to_all(x, out=out),
            f"broadcast, {kind}": lambda x=x: collectives.broadcast(x, 0, out=x),
        }
    return calls


def mpis(size: int, n: int) -> dict[str, Call]:
    """The same by blocking calls of mpi4py."""
    mpi = importlib.import_module("mpi4py.MPI")
    world = mpi.COMM_WORLD
    x, whole, part, swapped = _zeros(size), _zeros(size * n), _zeros(size // n), _zeros(size)
    return {
        "all_reduce": lambda: world.Allreduce(mpi.IN_PLACE, x),
        "all_gather": lambda: world.Allgather(x, whole),
        "reduce_scatter": lambda: world.Reduce_scatter_block(x, part),
        "all_to_all": lambda: world.Alltoall(x, swapped),
        "broadcast": lambda: world.Bcast(x, 0),
    }


def gloos(size: int, n: int) -> dict[str, Call]:
    """The same by torch.distributed."""
    torch = importlib.import_module("torch")
    distributed = torch.distributed
    x, swapped = torch.zeros(size), torch.zeros(size)
    parts, given = list(torch.zeros(size // n * n).chunk(n)), list(torch.zeros(size).chunk(n))
    out = torch.zeros(size // n)
    rows = [torch.zeros(size) for _ in range(n)]
    return {
        "all_reduce": lambda: distributed.all_reduce(x),
        "all_gather": lambda: distributed.all_gather(rows, x),
        "reduce_scatter": lambda: distributed.reduce_scatter(out, parts),
        "all_to_all": lambda: distributed.all_to_all(list(swapped.chunk(n)), given),
        "broadcast": lambda: distributed.broadcast(x, 0),
    }


def start_gloo(address: str) -> bool:
    """Connect torch.distributed, if there is an address for it."""
    if not address:
        return False
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{address}",
        rank=collectives.rank(),
        world_size=collectives.world_size(),
        timeout=datetime.timedelta(seconds=120),
    )
    return True


def measure(size: int, rounds: int, gloo: bool, mpi: bool) -> dict[str, list[float]]:
    """Let all take turns; microseconds of a call, one value for each turn."""
    n = collectives.world_size()
    calls: dict[str, Call] = {f"ours: {name}": call for name, call in ours(size, n).items()}
    if mpi:
        calls |= {f"mpi: {name}": call for name, call in mpis(size, n).items()}
    if gloo:
        calls |= {f"gloo: {name}": call for name, call in gloos(size, n).items()}
    source, target = _zeros(size), _zeros(size)
    calls["copy"] = lambda: np.copyto(target, source)
    often = max(1, min(_MOST, int(_LONG / (4 * size + _SHORT))))
    took: dict[str, list[float]] = {name: [] for name in calls}
    refused: set[str] = set()
    for turn in range(rounds + 1):  # the first one warms up
        for name, call in calls.items():
            if name in refused:
                continue
            collectives.barrier()
            began = time.perf_counter()
            try:
                for _ in range(often):
                    call()
            except RuntimeError:  # gloo does not have every collective
                if not name.startswith("gloo"):
                    raise
                refused.add(name)
                continue
            if turn:
                took[name].append((time.perf_counter() - began) / often * 1e6)
    return {name: values for name, values in took.items() if values}


def idle(seconds: float) -> float:
    """Let rank 0 wait for the others, and give the part of a core that it used after the first 100 ms."""
    collectives.barrier()
    x = np.zeros(4, np.float32)
    if collectives.rank():
        time.sleep(seconds + 0.2)
        collectives.all_reduce(x)
        return 0.0
    work = collectives.all_reduce(x, async_op=True)
    _wait(work, 0.1)
    began, used = time.perf_counter(), time.process_time()
    _wait(work, seconds)
    part = (time.process_time() - used) / (time.perf_counter() - began)
    work.wait()
    return part


def main(argv: Sequence[str]) -> None:
    """Measure what the JSON in the first argument says."""
    task: dict[str, Any] = json.loads(argv[0])
    rank, n = collectives.rank(), collectives.world_size()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) >= n:
        os.sched_setaffinity(0, {cores[rank]})
    gloo = start_gloo(task["gloo"])
    took = {size: measure(size // 4 // n * n, task["rounds"], gloo, task["mpi"]) for size in task["sizes"]}
    waited = idle(task["idle"])
    slowest = collectives.all_gather_object(took)
    if rank == 0:
        merged = {
            size: {
                name: [max(turns) for turns in zip(*(each[size][name] for each in slowest), strict=True)]
                for name in took[size]
            }
            for size in took
        }
        sys.stdout.write(json.dumps({"took": merged, "idle": waited}) + "\n")


def _wait(work: collectives.Work[Array], seconds: float) -> None:
    try:
        work.wait(seconds)
    except CollectiveTimeoutError:
        return


def _zeros(size: int) -> Array:
    return np.zeros(size, np.float32)


if __name__ == "__main__":
    main(sys.argv[1:])
