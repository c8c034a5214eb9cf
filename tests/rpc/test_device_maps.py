"""Arrays on GPUs in calls, on the double of CuPy: where they arrive, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from doubles import installed
from ranks import remote
from shardwise import rpc
from shardwise.collectives import run_threads
from shardwise.errors import ArgumentError, RpcError
from shardwise.rpc.device_map import DeviceMaps, check_device_maps
from shardwise.tensor import Tensor


@pytest.fixture
def cupy() -> Iterator[ModuleType]:
    with installed(3) as module:
        yield module


def test_maps_and_their_way_back() -> None:
    maps = check_device_maps(["a", "b"], [{"b": {0: 1, 1: 0}}, {}], [2, 2])
    first, second = DeviceMaps(0, maps), DeviceMaps(1, maps)
    assert first.target(1, 0, answers=False) == 1
    assert second.target(0, 1, answers=True) == 0
    assert second.target(0, 1, answers=False) is None
    assert first.target(0, 0, answers=False) is None


def test_maps_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match="Node a has a device map to 'c', which is no worker"):
        check_device_maps(["a", "b"], [{"c": {0: 0}}, {}], [2, 2])
    with pytest.raises(ArgumentError, match=r"Node b has invalid device indices in device map \{0: 2\} to a"):
        check_device_maps(["a", "b"], [{}, {"a": {0: 2}}], [2, 2])


@pytest.mark.parametrize("size", [3, 50_000, 500_000])
def test_there_and_back(cupy: ModuleType, size: int) -> None:
    def program(rank: int) -> None:
        options = rpc.RpcBackendOptions(device_maps={"w1": {0: 0}} if rank == 0 else {})
        rpc.init_rpc(f"w{rank}", rpc_backend_options=options)
        if rank == 0:
            x = cupy.asarray(np.arange(float(size)))
            y = rpc.rpc_sync("w1", remote.same, (x,))
            assert isinstance(y, cupy.ndarray)
            assert np.array_equal(cupy.asnumpy(y), np.arange(float(size)))
            tensor = rpc.rpc_sync("w1", remote.same, (Tensor(x, True),))
            assert isinstance(tensor.data, cupy.ndarray)
            assert tensor.requires_grad
            assert rpc.rpc_sync("w1", remote.add, (1, 2)) == 3
        else:
            with pytest.raises(RpcError, match="an array on cuda:0 of w1 is in a call to w0"):
                rpc.rpc_async("w0", remote.same, (cupy.zeros(3),))
        rpc.shutdown(timeout=20)

    run_threads(program, 2)


def test_an_answer_without_a_map_is_an_error_and_no_hang(cupy: ModuleType) -> None:
    def program(rank: int) -> None:
        if rank == 0:
            with pytest.raises(RpcError, match="is in an answer to w0"):
                rpc.rpc_sync("w1", cupy.zeros, (3,), timeout=5)

    remote.on_workers(program, 2)


def test_a_gpu_that_is_not_there_is_told_to_all(cupy: ModuleType) -> None:
    def program(rank: int) -> None:
        options = rpc.RpcBackendOptions(device_maps={"w1": {0: 7}} if rank == 0 else {})
        with pytest.raises(ArgumentError, match="Node w0 has invalid device indices"):
            rpc.init_rpc(f"w{rank}", rpc_backend_options=options)

    run_threads(program, 2)
