"""Which way device arrays go: what all members can, and what is said where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardwise.backend.errors import CollectiveError, DeviceError
from shardwise.collectives.device.choice import Abilities, choose
from shardwise.collectives.device.mpi_cuda import why_not_mpi_cuda

FIRST = Abilities(0, "a", "0000:01:00.0 ff", 22304, {"mpi-cuda": "MPI takes host memory only"}, "", False)
SECOND = replace(FIRST, rank=1, device="0000:02:00.0 fe")


def test_nccl_comes_first() -> None:
    choice = choose([FIRST, SECOND])
    assert (choice.transport, choice.reason) == ("nccl", "all ranks have it")


def test_then_what_all_can() -> None:
    able = replace(FIRST, lacks={}), replace(SECOND, lacks={"nccl": "CuPy finds no NCCL"})
    choice = choose(able)
    assert choice.transport == "mpi-cuda"
    assert choice.reason == "not nccl: rank 1: CuPy finds no NCCL"
    choice = choose([replace(able[0], nccl=22203), replace(SECOND, nccl=22304)])
    assert choice.transport == "staged"
    assert choice.reason == (
        "not nccl: rank 0 has NCCL 2.22.3, rank 1 has 2.23.4; "
        "not mpi-cuda: rank 1: MPI takes host memory only"
    )


def test_a_shared_gpu() -> None:
    shared = [FIRST, replace(SECOND, device=FIRST.device)]
    with pytest.raises(DeviceError) as caught:
        choose(shared)
    assert str(caught.value) == (
        "ranks 0-1 share the GPU 0000:01:00.0 of a. Give each rank its own, by "
        "shardwise.collectives.local_device() before the first array and no more ranks per host than it "
        "has GPUs; or let them share, slower, by SHARDWISE_SHARE_GPUS=1 on all ranks (shardwise run "
        "--share-gpus)."
    )
    choice = choose([replace(member, shares=True) for member in shared])
    assert choice.transport == "staged"
    assert choice.reason.startswith("not nccl: ranks 0-1 share the GPU 0000:01:00.0 of a; not mpi-cuda: ")
    apart = [FIRST, replace(FIRST, rank=1, host="b")]
    assert choose(apart).transport == "nccl"


def test_what_is_asked_for() -> None:
    members = [replace(FIRST, forced="staged"), replace(SECOND, forced="staged")]
    assert choose(members).reason == "SHARDWISE_DEVICE_TRANSPORT says so"
    for forced, message in {
        "mpi-cuda": "SHARDWISE_DEVICE_TRANSPORT=mpi-cuda, but rank 0: MPI takes host memory only.",
        "ring": "SHARDWISE_DEVICE_TRANSPORT=ring: there is no such transport; choose one of nccl, mpi-cuda, "
        "staged, or leave it out.",
    }.items():
        with pytest.raises(CollectiveError) as caught:
            choose([replace(member, forced=forced) for member in members])
        assert str(caught.value) == message
    with pytest.raises(CollectiveError) as caught:
        choose([members[0], SECOND])
    assert str(caught.value) == (
        "SHARDWISE_DEVICE_TRANSPORT differs between ranks: staged on rank 0, nothing on rank 1. "
        "Give all the same."
    )


def test_an_mpi_that_takes_host_memory_only() -> None:
    """Asked, and where it says yes, tried in a process of its own, which has no GPU here."""
    assert why_not_mpi_cuda(0, {}) == "MPI does not say that it takes memory of a device"
    said = why_not_mpi_cuda(0, {"MPICH_GPU_SUPPORT_ENABLED": "1"})
    assert said.startswith("MPI says that it takes memory of a device, and a trial ended with 1 (")
