"""One rank of the benchmark of dispatch: our DTensor and torch's take turns in the same processes.

Run by ``dispatch.py`` on every rank; rank 0 prints one line of JSON.
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

import shardwise as sw
from contest.collective import start_gloo
from shardwise import collectives
from shardwise.dtensor import distribute_tensor, from_local
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional
from shardwise.tensor import no_grad

__all__ = ["BACKWARDS", "OPS", "main"]

Pair = tuple[Callable[[], object], Callable[[], object]]
"""The op on DTensors, and the same on the parts alone."""

OPS = (
    "add", "mul", "mul by a number", "relu", "sum", "matmul", "layer_norm", "add_", "t", "view", "to_local",
    "from_local",
)  # fmt: skip
BACKWARDS = ("sum, forward and backward", "matmul and sum, forward and backward")
SIZE = 16


def ours(n: int) -> dict[str, Pair]:
    """Make the calls of ours, on shards of a matrix of `n` by `n`."""
    mesh = DeviceMesh("cpu", list(range(collectives.world_size())))
    whole = np.random.default_rng(0).standard_normal((n, n)).astype(np.float32)

    def sharded(grad: bool = False) -> tuple[Any, Any]:
        x = distribute_tensor(sw.tensor(whole), mesh, ["S(0)"])
        part = sw.tensor(x.to_local().numpy().copy())
        x.requires_grad = part.requires_grad = grad
        return x, part

    (x, a), (y, b) = sharded(), sharded()
    w, v = distribute_tensor(sw.tensor(whole), mesh, ["R"]), sw.tensor(whole)
    calls = _calls(x, y, w, a, b, v, n, functional.layer_norm)
    calls["from_local"] = (lambda: from_local(a, mesh, ["S(0)"], shape=(n, n)), lambda: a)
    (x, a), w, v = sharded(grad=True), distribute_tensor(sw.tensor(whole), mesh, ["R"]), sw.tensor(whole)
    w.requires_grad = v.requires_grad = True
    return calls | _backwards(x, w, a, v)


def torchs(n: int) -> dict[str, Pair]:
    """Make the same calls of torch's."""
    torch = importlib.import_module("torch")
    tensor = importlib.import_module("torch.distributed.tensor")
    device_mesh = importlib.import_module("torch.distributed.device_mesh")
    torch.set_num_threads(1)
    mesh = device_mesh.init_device_mesh("cpu", (collectives.world_size(),))
    whole = torch.randn(n, n)
    shard, replicate = [tensor.Shard(0)], [tensor.Replicate()]

    def sharded(grad: bool = False) -> tuple[Any, Any]:
        x = tensor.distribute_tensor(whole, mesh, shard)
        part = x.to_local().clone()
        return x.requires_grad_(grad), part.requires_grad_(grad)

    (x, a), (y, b) = sharded(), sharded()
    w, v = tensor.distribute_tensor(whole, mesh, replicate), whole.clone()
    calls = _calls(x, y, w, a, b, v, n, torch.nn.functional.layer_norm)
    size = {"shape": whole.shape, "stride": whole.stride(), "run_check": False}
    calls["from_local"] = (lambda: tensor.DTensor.from_local(a, mesh, shard, **size), lambda: a)
    x, a = sharded(grad=True)
    w = tensor.distribute_tensor(whole, mesh, replicate).requires_grad_()
    return calls | _backwards(x, w, a, whole.clone().requires_grad_())


def _calls(x: Any, y: Any, w: Any, a: Any, b: Any, v: Any, n: int, layer_norm: Any) -> dict[str, Pair]:
    rows, half = a.shape[0], n // 4
    return {
        "add": (lambda: x.add(y), lambda: a.add(b)),
        "mul": (lambda: x.mul(y), lambda: a.mul(b)),
        "mul by a number": (lambda: x * 2.0, lambda: a * 2.0),
        "relu": (lambda: x.relu(), lambda: a.relu()),
        "sum": (lambda: x.sum(), lambda: a.sum()),
        "matmul": (lambda: x.matmul(w), lambda: a.matmul(v)),
        "layer_norm": (lambda: layer_norm(x, (n,)), lambda: layer_norm(a, (n,))),
        "add_": (lambda: x.add_(0.0), lambda: a.add_(0.0)),
        "t": (lambda: x.t(), lambda: a.t()),
        "view": (lambda: x.view(n, 4, half), lambda: a.view(rows, 4, half)),
        "to_local": (lambda: x.to_local(), lambda: a),
    }


def _backwards(x: Any, w: Any, a: Any, v: Any) -> dict[str, Pair]:
    names = (
        (lambda: x.to_local().sum().backward(), lambda: a.sum().backward()),
        (lambda: x.matmul(w).to_local().sum().backward(), lambda: a.matmul(v).sum().backward()),
    )
    return dict(zip(BACKWARDS, names, strict=True))


def measure(rounds: int, often: int, n: int, gloo: bool) -> dict[str, list[float]]:
    """Let all take turns; microseconds of a call, one value for each turn."""
    sides: dict[str, tuple[dict[str, Pair], Any]] = {"ours": (ours(n), no_grad)}
    if gloo:
        sides["torch"] = (torchs(n), importlib.import_module("torch").no_grad)
    took: dict[str, list[float]] = {}
    for turn in range(rounds + 1):  # the first one warms up
        for name in (*OPS, *BACKWARDS):
            for side, (calls, silent) in sides.items():
                for kind, call in zip(("dtensor", "local"), calls[name], strict=True):
                    collectives.barrier()
                    if name in BACKWARDS:
                        seconds = _timed(call, max(1, often // 10))
                    else:
                        with silent():
                            seconds = _timed(call, often)
                    if turn:
                        took.setdefault(f"{side}: {kind}: {name}", []).append(seconds * 1e6)
    return took


def _timed(call: Callable[[], object], often: int) -> float:
    call()
    began = time.perf_counter()
    for _ in range(often):
        call()
    return (time.perf_counter() - began) / often


def main(argv: Sequence[str]) -> None:
    """Measure what the JSON in the first argument says."""
    task: dict[str, Any] = json.loads(argv[0])
    rank, n = collectives.rank(), collectives.world_size()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) >= n:
        os.sched_setaffinity(0, {cores[rank]})
    gloo = start_gloo(task["gloo"])
    took = measure(task["rounds"], task["often"], SIZE, gloo)
    if rank == 0:
        sys.stdout.write(json.dumps(took) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
