"""One rank of the benchmark of redistributions: ours and torch's DTensor take turns in the same processes.

Run by ``redistribute.py`` on every rank; rank 0 prints one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from contest.collective import start_gloo
from shardwise import collectives
from shardwise.backend.allocator import keep_pages
from shardwise.backend.array import Array
from shardwise.dtensor import Layout
from shardwise.dtensor.redistribute import plan, run
from shardwise.mesh import DeviceMesh

__all__ = ["TRANSITIONS", "main"]

Call = Callable[[], object]

TRANSITIONS = (
    *(("S(0)", "R"), ("S(1)", "R"), ("S(0)", "S(1)"), ("S(1)", "S(0)")),
    *(("P", "R"), ("P", "S(0)"), ("P", "S(1)")),
)
_LONG, _SHORT = 4e6, 20_000  # bytes that one turn moves, and what a call counts at least
_MOST = 100  # calls in a turn


def ours(rows: int, columns: int) -> dict[str, Call]:
    """Plan and run each transition of a matrix, by the plan that is kept."""
    rank, n = collectives.rank(), collectives.world_size()
    mesh = DeviceMesh("cpu", list(range(n)))
    calls: dict[str, Call] = {}
    for one, other in TRANSITIONS:
        source = Layout(mesh, [one], (rows, columns), np.float32)
        target = Layout(mesh, [other], (rows, columns), np.float32)
        x = np.ones(source.local_shape((rank,)), np.float32)
        calls[f"{one} -> {other}"] = lambda a=source, b=target, x=x: run(plan(a, b), x)
    return calls


def torchs(rows: int, columns: int) -> dict[str, Call]:
    """The same by torch's DTensor."""
    torch = importlib.import_module("torch")
    tensor = importlib.import_module("torch.distributed.tensor")
    device_mesh = importlib.import_module("torch.distributed.device_mesh")
    mesh = device_mesh.init_device_mesh("cpu", (collectives.world_size(),))
    kinds = {
        "R": tensor.Replicate(),
        "P": tensor.Partial(),
        "S(0)": tensor.Shard(0),
        "S(1)": tensor.Shard(1),
    }
    full = torch.ones(rows, columns)
    calls: dict[str, Call] = {}
    for one, other in TRANSITIONS:
        if one == "P":
            x = tensor.DTensor.from_local(full, mesh, [kinds[one]], run_check=False)
        else:
            x = tensor.distribute_tensor(full, mesh, [kinds[one]])
        calls[f"{one} -> {other}"] = lambda x=x, to=kinds[other]: _waited(x.redistribute(mesh, [to]))
    return calls


def measure(rows: int, columns: int, rounds: int, gloo: bool) -> dict[str, list[float]]:
    """Let all take turns; microseconds of a call, one value for each turn."""
    calls: dict[str, Call] = {f"ours: {name}": call for name, call in ours(rows, columns).items()}
    if gloo:
        calls |= {f"torch: {name}": call for name, call in torchs(rows, columns).items()}
    source, target = _ones(rows, columns), _ones(rows, columns)
    calls["copy"] = lambda: np.copyto(target, source)
    often = max(1, min(_MOST, int(_LONG / (4 * rows * columns + _SHORT))))
    took: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):  # the first one warms up
        for name, call in calls.items():
            collectives.barrier()
            began = time.perf_counter()
            for _ in range(often):
                call()
            if turn:
                took[name].append((time.perf_counter() - began) / often * 1e6)
    return took


def main(argv: Sequence[str]) -> None:
    """Measure what the JSON in the first argument says."""
    task: dict[str, Any] = json.loads(argv[0])
    rank, n = collectives.rank(), collectives.world_size()
    keep_pages()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) >= n:
        os.sched_setaffinity(0, {cores[rank]})
    gloo = start_gloo(task["gloo"])
    took = {str(4 * m * k): measure(m, k, task["rounds"], gloo) for m, k in task["shapes"]}
    slowest = collectives.all_gather_object(took)
    if rank == 0:
        merged = {
            size: {
                name: [max(turns) for turns in zip(*(each[size][name] for each in slowest), strict=True)]
                for name in took[size]
            }
            for size in took
        }
        sys.stdout.write(json.dumps({"took": merged}) + "\n")


def _waited(x: Any) -> object:
    """Wait for the local tensor, which comes when it is first used."""
    local = x.to_local()
    return local.wait() if hasattr(local, "wait") else local


def _ones(rows: int, columns: int) -> Array:
    return np.ones((rows, columns), np.float32)


if __name__ == "__main__":
    main(sys.argv[1:])
