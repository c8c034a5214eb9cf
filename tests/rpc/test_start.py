"""Starting and ending: who is in the group, what is refused, and that nobody goes too early."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from ranks import remote
from shardwise import collectives, rpc
from shardwise.collectives import run_threads
from shardwise.errors import ArgumentError, RpcError, RpcTimeoutError


def test_alone() -> None:
    rpc.init_rpc("alone")
    assert rpc.rpc_sync("alone", remote.add, (1, 2)) == 3
    assert rpc.get_worker_info() == rpc.WorkerInfo("alone", 0)
    with pytest.raises(RpcError, match="already initialized here, as WorkerInfo"):
        rpc.init_rpc("again")
    rpc.shutdown()
    for call in (lambda: rpc.rpc_sync("alone", remote.nothing), rpc.shutdown, rpc.get_worker_info):
        with pytest.raises(RpcError, match="RPC has not been initialized"):
            call()
    rpc.init_rpc("once_more")
    rpc.shutdown(graceful=False)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": ""}, ArgumentError, "worker name must be non-empty"),
    ({"name": "a b"}, ArgumentError, "worker name must match"),
    ({"name": "x" * 128}, ArgumentError, "must be shorter than 128"),
    ({"name": 3}, TypeError, "name=3 is a int"),
    ({"name": "same"}, RpcError, "worker name 'same' is not unique: ranks 0 and 1 have it"),
    ({"backend": "tensorpipe"}, TypeError, "there is one backend"),
    ({"rpc_backend_options": {}}, TypeError, "wanted an RpcBackendOptions"),
    ({"rank": 7}, ArgumentError, "it has place 1 in the group"),
    ({"world_size": 7}, ArgumentError, "the group has 2 ranks"),
]


@pytest.mark.parametrize(("wrong", "kind", "text"), BAD, ids=[text for _, _, text in BAD])
def test_what_one_has_wrong_all_are_told(wrong: dict[str, Any], kind: type[Exception], text: str) -> None:
    def program(rank: int) -> None:
        arguments = {"name": "same" if rank == 0 else "other"} | (wrong if rank else {})
        with pytest.raises(kind, match=text):
            rpc.init_rpc(**arguments)
        rpc.init_rpc(f"w{rank}")  # and nothing is left of it
        rpc.shutdown()

    run_threads(program, 2)


def test_options() -> None:
    with pytest.raises(TypeError, match="timedelta"):
        rpc.RpcBackendOptions(rpc_timeout=timedelta(seconds=1))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="num_worker_threads=0"):
        rpc.RpcBackendOptions(num_worker_threads=0)
    with pytest.raises(ArgumentError, match="one to one"):
        rpc.RpcBackendOptions(device_maps={"w1": {0: 1, 1: 1}})
    options = rpc.RpcBackendOptions(device_maps={"w1": {0: 1}})
    options.set_device_map("w1", {1: 0})
    assert options.device_maps == {"w1": {0: 1, 1: 0}}
    with pytest.raises(ArgumentError, match="one to one"):
        options.set_device_map("w1", {2: 0})


@pytest.mark.mpi(min_size=2)
def test_a_group_of_some_ranks() -> None:
    rank, n = collectives.rank(), collectives.world_size()
    members = list(range(n - 1, 0, -1))  # not all, and in another order
    if rank == 0:
        with pytest.raises(RpcError, match="it is not one of ranks"):
            rpc.init_rpc("w0", ranks=members)
    else:
        rpc.init_rpc(f"w{rank}", ranks=members)
        assert rpc.get_worker_info().id == members.index(rank)
        to = members[(members.index(rank) + 1) % len(members)]
        assert rpc.rpc_sync(f"w{to}", collectives.rank) == to
        rpc.shutdown()
    collectives.barrier()


@pytest.mark.mpi(min_size=2)
def test_a_communicator_is_a_group_too() -> None:
    from mpi4py import MPI

    rank, n = collectives.rank(), collectives.world_size()
    half = MPI.COMM_WORLD.Split(rank % 2, -rank)
    rpc.init_rpc(f"w{rank}", ranks=half)
    ids = [each for each in range(n - 1, -1, -1) if each % 2 == rank % 2]
    assert rpc.get_worker_info().id == ids.index(rank)
    assert [rpc.rpc_sync(place, collectives.rank) for place in range(len(ids))] == ids
    rpc.shutdown()
    half.Free()


@pytest.mark.mpi(min_size=2)
def test_who_comes_first_serves_the_others() -> None:
    rank, n = collectives.rank(), collectives.world_size()
    for _ in range(2):
        rpc.init_rpc(f"w{rank}")
        if rank == n - 1:
            time.sleep(0.2)
            assert [rpc.rpc_sync(f"w{to}", remote.add, (to, 1)) for to in range(n)] == list(range(1, n + 1))
        rpc.shutdown()


@pytest.mark.mpi(min_size=2)
def test_a_chain_that_nobody_waits_for_ends_before_anybody_goes() -> None:
    rank, n = collectives.rank(), collectives.world_size()
    remote.NOTES.clear()
    rpc.init_rpc(f"w{rank}")
    if rank == 0:
        rpc.rpc_async("w1", remote.hop, ([f"w{each}" for each in range(n)], 20, "w0", 5.0))
    rpc.shutdown()
    assert (["hopped"] if rank == 0 else []) == remote.NOTES


def test_a_shutdown_that_nobody_follows_ends_in_time() -> None:
    def program(rank: int) -> None:
        rpc.init_rpc(f"w{rank}")
        if rank == 0:
            began = time.monotonic()
            with pytest.raises(RpcTimeoutError):
                rpc.shutdown(timeout=0.2)
            assert time.monotonic() - began < 2
            with pytest.raises(RpcError, match="not been initialized"):
                rpc.rpc_sync("w1", remote.nothing)
        collectives.barrier()
        if rank == 1:
            rpc.shutdown(graceful=False)

    run_threads(program, 2)


def test_workers_meet_and_gather() -> None:
    def program(rank: int) -> None:
        everyone = rpc.gather_from_workers({"rank": rank})
        assert everyone == {f"w{each}": {"rank": each} for each in range(3)}
        if rank:
            assert rpc.gather_from_workers(rank, ["w2", "w1"]) == {"w1": 1, "w2": 2}
            rpc.meet_workers(["w1", "w2"])
        else:
            with pytest.raises(ArgumentError, match="w0 is not among the workers that gather: w1, w2"):
                rpc.meet_workers(["w1", "w2"])
            with pytest.raises(RpcTimeoutError):
                rpc.meet_workers(["w0", "w1"], timeout=0.1)

    remote.on_workers(program, 3)
