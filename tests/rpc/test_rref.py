"""Remote references as users see them: on simulated workers, and on real ones."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ranks import remote
from ranks.cluster import EMPTY, Box, counts, fail, here, keep, name_of, stores, take
from shardwise import rpc
from shardwise.backend.errors import ArgumentError, RpcError, RpcTimeoutError, RRefError
from shardwise.collectives import rank, world_size
from shardwise.rpc.worker_info import WorkerInfo


@pytest.fixture(autouse=True)
def fresh() -> None:
    stores.clear()


def alone(program: Callable[[], Any], n: int = 2) -> Any:
    """Run a program on worker 0 of a simulation, and see that nothing is left."""
    simulation = rpc.Simulation(n, 1, loss=0.1)
    result = simulation.run(lambda _: program(), ranks=[0])[0]
    stores.clear()
    assert counts(simulation) == [EMPTY] * n
    return result


def test_who_owns_a_value() -> None:
    def program() -> None:
        mine, other = rpc.RRef(5), rpc.remote(1, Box, ("b",))
        assert mine.is_owner()
        assert not other.is_owner()
        assert mine.owner() == WorkerInfo("worker0", 0)
        assert other.owner_name() == "worker1"
        assert mine.confirmed_by_owner()
        assert other.to_here().name == "b"
        assert other.confirmed_by_owner()
        assert mine.local_value() == 5
        with pytest.raises(RRefError, match=r"cannot call local_value\(\) on user .*name=worker0"):
            other.local_value()

    alone(program)


def test_the_owner_gets_the_value_itself_and_a_user_a_copy_each_time() -> None:
    def program() -> None:
        value = np.arange(3)
        assert rpc.RRef(value).to_here() is value
        made = rpc.remote(0, np.arange, (3,))
        assert made.to_here() is made.local_value()
        other = rpc.remote(1, np.arange, (3,))
        other.to_here()[0] = 9
        assert other.to_here()[0] == 0

    alone(program)


def confirmed(rref: Any) -> bool:
    assert rref.confirmed_by_owner()
    return bool(rref.is_owner())


def test_inside_of_a_call_a_reference_is_always_confirmed() -> None:
    def program() -> None:
        rref = rpc.remote(1, Box, ("b",))
        assert [rpc.rpc_sync(w, confirmed, (rref,)) for w in range(3)] == [False, True, False]
        assert rpc.rpc_sync(2, name_of, (rpc.RRef(Box("a")),)) == "a"

    alone(program, 3)


def test_errors_of_the_making_are_raised_on_use() -> None:
    def program() -> None:
        for to in (0, 1):
            rref = rpc.remote(to, fail, ("no value",))
            with pytest.raises(ValueError, match="no value"):
                rref.to_here()
            with pytest.raises(ValueError, match="no value"):
                rref.rpc_sync().anything()
        with pytest.raises(RRefError, match="cannot be sent: making its value has failed"):
            rpc.rpc_sync(1, name_of, (rref,))

    alone(program)


def test_a_time_out_of_the_making_is_raised_on_use() -> None:
    def program() -> None:
        rref = rpc.remote(1, Box, ("b",), timeout=0.001)
        assert rpc.rpc_sync(1, here) == 1
        with pytest.raises(RpcTimeoutError):
            rref.to_here()

    alone(program)


def test_proxies_call_methods() -> None:
    def program() -> None:
        for to in (0, 1):
            rref = rpc.remote(to, Box, ("b",))
            sync = rref.rpc_sync()
            assert [sync.tell(), sync.where()] == ["b", to]
            assert rref.rpc_async().tell().wait() == "b"
            there = rref.remote().tell()
            assert there.owner().id == to
            assert there.to_here() == "b"
            with pytest.raises(AttributeError, match="has no attribute 'x'"):
                sync.x()
            with pytest.raises(AttributeError, match="has no attribute 'x'"):
                rref.rpc_async().x().wait()
            with pytest.raises(AttributeError, match="has no attribute 'x'"):
                rref.remote().x()
            assert rref._get_type() is Box
            assert rref.value_type(blocking=False).wait() is Box
        assert rpc.RRef(1, type_hint=float).value_type() is float

    alone(program)


def test_arguments_are_checked() -> None:
    def program() -> None:
        rref = rpc.remote(1, Box, ("b",))
        for timeout in (-2, float("nan")):
            with pytest.raises(ArgumentError, match="timeout"):
                rref.to_here(timeout)
        with pytest.raises(TypeError, match="callable"):
            rpc.remote(1, 5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="to="):
            rpc.remote(1.5, int)  # type: ignore[arg-type]
        for to in (-1, 7, "nobody"):
            with pytest.raises(RpcError, match="could not find destination"):
                rpc.remote(to, int)
        with pytest.raises((AttributeError, pickle.PicklingError)):
            rpc.remote(1, lambda: 1)

    alone(program)


def test_it_goes_in_messages_only() -> None:
    def program() -> None:
        for rref in (rpc.RRef(1), rpc.remote(1, Box, ("b",))):
            with pytest.raises(RRefError, match="Can not pickle rref in python pickler"):
                pickle.dumps(rref)
            assert copy.copy(rref) is rref
            assert copy.deepcopy([rref])[0] is rref

    alone(program)
    with pytest.raises(RpcError, match="has not been initialized"):
        rpc.RRef(1)


def test_it_says_what_it_is() -> None:
    def program() -> None:
        mine, other = rpc.RRef(1), rpc.remote(1, Box, ("b",))
        assert repr(mine) == "OwnerRRef(GloballyUniqueId(created_on=0, local_id=0))"
        assert repr(other) == (
            "UserRRef(RRefId = GloballyUniqueId(created_on=0, local_id=1), "
            "ForkId = GloballyUniqueId(created_on=0, local_id=2))"
        )

    alone(program)


def test_release_ends_it_at_once() -> None:
    simulation = rpc.Simulation(2, 1)

    def program(_: int) -> None:
        with rpc.remote(1, Box, ("b",)) as rref:
            assert rref.to_here().name == "b"
            keep("rref", rref)
        with pytest.raises(RRefError, match=r"Cannot call to_here\(\) on it after deletion"):
            rref.to_here()
        rref.release()
        assert repr(rref) == "RRef(released)"

    simulation.run(program, ranks=[0])
    assert counts(simulation) == [EMPTY] * 2
    assert "rref" in stores[0]


def test_a_value_that_is_shared_is_counted_until_the_other_lets_go() -> None:
    simulation = rpc.Simulation(2, 1)
    simulation.run(lambda _: keep("mine", rpc.RRef(1)), ranks=[0])
    assert counts(simulation)[0]["num_owner_rrefs"] == 0
    simulation.run(lambda _: rpc.rpc_sync(1, keep, ("it", take("mine"))), ranks=[0])
    assert counts(simulation)[0]["num_owner_rrefs"] == 1
    assert counts(simulation)[0]["num_forks"] == 1
    stores[1].clear()
    assert counts(simulation) == [EMPTY] * 2


def test_the_ledger_names_the_lines_and_the_holders() -> None:
    simulation = rpc.Simulation(2, 1)

    def program(_: int) -> None:
        keep("a", rpc.remote(1, Box, ("b",)))
        keep("mine", rpc.RRef(Box("c")))
        rpc.rpc_sync(1, keep, ("it", take("mine")))

    simulation.run(program, ranks=[0])
    [owned, used] = simulation.run(lambda _: rpc.rref_ledger(), ranks=[0])[0]
    assert (owned.role, owned.owner, owned.type, owned.holders) == ("owner", "worker0", "Box", ("worker1",))
    assert (used.role, used.owner, used.state) == ("user", "worker1", "confirmed")
    assert "test_rref.py" in owned.line
    assert "test_rref.py" in used.line
    stores.clear()


@rpc.functions.async_execution
def later(to: int) -> rpc.Future[str]:
    return rpc.rpc_async(to, Box, ("x",)).then(lambda done: done.value().name + "!")


def test_functions_that_give_futures_make_values_too() -> None:
    def program() -> None:
        assert rpc.remote(1, later, (0,)).to_here() == "x!"

    alone(program)


@pytest.mark.mpi(min_size=2)
def test_references_between_real_workers() -> None:
    stores.clear()
    rpc.init_rpc(f"w{rank()}")
    n = world_size()
    to, beyond = (rank() + 1) % n, (rank() + 2) % n
    rref = rpc.remote(to, Box, (rank(),))
    assert rref.to_here().name == rank()
    assert rpc.rpc_sync(beyond, name_of, (rref,)) == rank()
    assert rref.rpc_sync().where() == to
    assert rref.remote().tell().to_here() == rank()
    many = [rpc.remote(i % n, Box, (i,)) for i in range(100)]
    assert [each.to_here().name for each in many] == list(range(100))
    big = rpc.remote(to, np.ones, (300_000,))
    assert big.to_here().sum() == 300_000
    rpc.rpc_sync(beyond, keep, (rank(), rref))
    del many, big
    rpc.shutdown(timeout=60)
    with pytest.raises(RpcError, match=r"after deletion|not been initialized"):
        rref.to_here()
    stores.clear()


def test_answers_that_nobody_looks_at_let_go_of_their_references() -> None:
    def program(at: int) -> None:
        if at == 0:
            for _ in range(20):
                rpc.rpc_async(1, own_reference)
        rpc.rpc_sync(1 - at, here)

    remote.on_workers(program, 2)  # whose shutdown waits for all handles


def own_reference() -> Any:
    return rpc.RRef(Box("r"))
