"""How device arrays go between ranks, and how fast. All ranks take part."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from shardwise.backend.errors import ShardwiseError
from shardwise.backend.select import get_backend
from shardwise.collectives import World, all_gather_object, all_reduce, barrier, local_device
from shardwise.collectives.rank_list import rank_list
from shardwise.launch.checks.finding import Finding, fail, ok, warn
from shardwise.launch.checks.unit import rate
from shardwise.launch.checks.unit import time as spell_time

__all__ = ["judge_devices_together", "measure_devices"]

_SMALL, _LARGE = 1 << 10, 64 << 20  # bytes
_OFTEN, _SELDOM = 50, 5


def measure_devices(world: World, *, able: bool, quick: bool) -> list[Finding]:
    """Time sums of device arrays over all ranks. All ranks of the world call it.

    Parameters
    ----------
    world : World
    able : bool
        Whether this rank has a device.
    quick : bool
        Leave the large arrays out.

    Returns
    -------
    list of Finding
        Empty where no rank has a device.
    """
    everyone = all_gather_object(able)
    if not all(everyone):
        without = [rank for rank, each in enumerate(everyone) if not each]
        return [judge_devices_together("", without, world.size, [])] if any(everyone) else []
    local_device("cuda")
    sizes = [(_SMALL, _OFTEN)] if quick else [(_SMALL, _OFTEN), (_LARGE, _SELDOM)]
    try:
        times = [_sum(size, often) for size, often in sizes]
    except ShardwiseError as error:  # decided from what all have said, so alike on all ranks
        what, _, todo = " ".join(str(error).split()).removesuffix(".").partition(". ")
        return [fail("device arrays", what, todo or "see the findings on GPUs above")]
    return [judge_devices_together(world.everyone.device_transport or "one rank", [], world.size, times)]


def judge_devices_together(
    transport: str, without: Sequence[int], ranks: int, times: Sequence[float]
) -> Finding:
    """Say how device arrays go.

    Parameters
    ----------
    transport : str
        What was agreed on.
    without : sequence of int
        Ranks that have no device, where others have.
    ranks : int
        How many there are.
    times : sequence of float
        Seconds of a sum of 1 KiB, and perhaps of 64 MiB.
    """
    if without:
        return fail(
            "device arrays",
            f"{rank_list(without)} of {ranks} without a GPU, others with one",
            "start ranks only where GPUs are, or leave the GPUs out: --device cpu",
        )
    what = f"all_reduce by {transport}: 1 KiB in {spell_time(times[0])}"
    if len(times) > 1:
        what += f", 64 MiB in {spell_time(times[1])} ({rate(_LARGE / times[1])})"
    if transport == "staged":
        return warn(
            "device arrays",
            f"{what}, through the memory of the hosts",
            "pip install 'shardwise[cuda12]', or [cuda13], brings NCCL; one GPU per rank",
        )
    return ok("device arrays", what)


def _sum(size: int, often: int) -> float:
    backend = get_backend("cuda")
    x = backend.asarray(np.ones(size // 4, np.float32))
    out = backend.empty(x.shape, x.dtype)
    times = []
    for _ in range(often + 1):
        barrier()
        backend.synchronize()
        began = time.perf_counter()
        all_reduce(x, out=out)
        backend.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])  # the first one connects
