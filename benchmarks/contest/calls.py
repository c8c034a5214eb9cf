"""One rank of the benchmark of remote calls: ours and torch's take turns in the same processes.

Run by ``rpc.py`` on two ranks; rank 0 prints one line of JSON. Each side names what it can do in a table, by
which a row is measured; whoever has more to measure adds a line to both tables.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise import collectives, ones, rpc

__all__ = ["main", "nothing", "same", "take"]

Call = Callable[[], object]

_FLIGHT = 100  # calls that are under way at once


def nothing() -> None:
    """Do nothing."""


def same(x: Any) -> Any:
    """Give it back."""
    return x


def take(x: Any) -> None:
    """Take something and give nothing back."""


def double(x: Any) -> Any:
    """Compute something that has a gradient."""
    return x * 2.0


def ours(large: int) -> dict[str, Call]:
    """What we do, by the names of the rows."""
    small, array = np.zeros(128), np.zeros(large // 8)
    weight = ones(16, 16, requires_grad=True)
    return {
        "call of nothing": lambda: rpc.rpc_sync("w1", nothing),
        f"call, {_FLIGHT} in flight": lambda: rpc.wait_all(
            [rpc.rpc_async("w1", nothing) for _ in range(_FLIGHT)]
        ),
        "echo of 1 KiB": lambda: rpc.rpc_sync("w1", same, (small,)),
        "array of 16 MiB, one way": lambda: rpc.rpc_sync("w1", take, (array,)),
        "RRef made and fetched": lambda: rpc.remote("w1", same, (1,)).to_here(),
        "context, call, backward": lambda: _our_step(weight),
    }


def _our_step(weight: Any) -> None:
    with rpc.autograd.context() as context:
        rpc.autograd.backward(context, [rpc.rpc_sync("w1", double, (weight,)).sum()])


def torchs(large: int) -> dict[str, Call]:
    """What torch does."""
    torch = importlib.import_module("torch")
    theirs = importlib.import_module("torch.distributed.rpc")
    small, array = torch.zeros(128, dtype=torch.float64), torch.zeros(large // 8, dtype=torch.float64)
    wait_all = importlib.import_module("torch.futures").wait_all
    autograd = importlib.import_module("torch.distributed.autograd")
    weight = torch.ones(16, 16, requires_grad=True)

    def step() -> None:
        with autograd.context() as context:
            autograd.backward(context, [theirs.rpc_sync("w1", double, (weight,)).sum()])

    return {
        "call of nothing": lambda: theirs.rpc_sync("w1", nothing),
        f"call, {_FLIGHT} in flight": lambda: wait_all(
            [theirs.rpc_async("w1", nothing) for _ in range(_FLIGHT)]
        ),
        "echo of 1 KiB": lambda: theirs.rpc_sync("w1", same, (small,)),
        "array of 16 MiB, one way": lambda: theirs.rpc_sync("w1", take, (array,)),
        "RRef made and fetched": lambda: theirs.remote("w1", same, (1,)).to_here(),
        "context, call, backward": step,
    }


def main(argument: str) -> None:
    """Measure what the task says."""
    task = json.loads(argument)
    rank = collectives.rank()
    rpc.init_rpc(f"w{rank}")
    rpc.rpc_sync(f"w{1 - rank}", nothing)
    idle = _idle(task["idle"])  # before torch has threads in this process
    collectives.barrier()
    if task["meeting"]:
        _start_torch(rank, task["meeting"])
    measured: dict[str, Any] = {}
    if rank == 0:
        sides = {"ours": ours(task["large"])}
        if task["meeting"]:
            sides["torch"] = torchs(task["large"])
        measured["took"] = _turns(sides, task["rounds"], task["steps"])
    collectives.barrier()
    if task["huge"]:
        measured["huge"] = _huge(rank, task["huge"])
    measured["socket"] = _socket(rank, task["steps"])
    if task["meeting"]:
        importlib.import_module("torch.distributed.rpc").shutdown()
    rpc.shutdown()
    idles = collectives.all_gather_object(idle)
    huges = collectives.all_gather_object(measured.get("huge"))
    if rank == 0:
        measured["idle"] = max(idles)
        measured["huge"] = max(huges) if task["huge"] else None
        sys.stdout.write(json.dumps(measured) + "\n")
        sys.stdout.flush()


def _turns(sides: dict[str, dict[str, Call]], rounds: int, steps: int) -> dict[str, dict[str, list[float]]]:
    """Give the seconds of each call of each row, side by side."""
    took: dict[str, dict[str, list[float]]] = {}
    for row in next(iter(sides.values())):
        times = took[row] = {side: [] for side in sides}
        count = max(1, steps // (10 if "flight" in row or "MiB" in row else 1))
        for turn in range(rounds + 1):
            for side, calls in sides.items():
                call = calls.get(row)
                for _ in range(count if call is not None else 0):
                    began = time.perf_counter()
                    call()
                    if turn:  # the first one warms up
                        times[side].append(time.perf_counter() - began)
    return took


def _idle(seconds: float) -> float:
    """Give the share of a core that this process takes while it waits for calls."""
    began, used = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - used) / (time.perf_counter() - began)


def _huge(rank: int, nbytes: int) -> float:
    """Send one huge array; give the most memory that this process took, in its sizes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if rank == 0:
        rpc.rpc_sync("w1", take, (np.ones(nbytes // 8),), timeout=0)
    collectives.barrier()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / nbytes


def _socket(rank: int, steps: int) -> float:
    """Give the seconds of a round trip of 100 bytes over a unix socket, with nothing else: the limit."""
    name = collectives.broadcast_object(f"\0shardwise-bench-{os.getpid()}")
    with socket.socket(socket.AF_UNIX) as end:
        if rank == 0:
            end.bind(name)
            end.listen()
            collectives.barrier()
            other, _ = end.accept()
            times = []
            with other:
                for _ in range(10 * steps):
                    began = time.perf_counter()
                    other.send(bytes(100))
                    other.recv(200)
                    times.append(time.perf_counter() - began)
            return statistics.median(times)
        collectives.barrier()
        end.connect(name)
        while data := end.recv(200):
            end.send(data)
    return 0.0


def _start_torch(rank: int, meeting: str) -> None:
    torch = importlib.import_module("torch")
    theirs = importlib.import_module("torch.distributed.rpc")
    torch.set_num_threads(1)
    options = theirs.TensorPipeRpcBackendOptions(init_method=f"file://{meeting}")
    theirs.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)


if __name__ == "__main__":
    calls = importlib.import_module("contest.calls")  # functions are sent by reference, and not to __main__
    calls.main(sys.argv[1])
