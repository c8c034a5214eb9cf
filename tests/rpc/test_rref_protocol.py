"""The protocol of RRefs under thousands of drawn interleavings: no leak, no early end, no hang."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest

from ranks.cluster import EMPTY, Box, counts, forget, keep, name_of, pass_on, store, stores, take
from shardwise import rpc
from shardwise.backend.errors import RpcError, RpcTimeoutError, RRefError


@pytest.fixture(autouse=True)
def fresh() -> None:
    stores.clear()
    gc.collect()
    Box.alive = 0


def wander(rank: int, n: int, seed: int) -> list[Any]:
    """A program of a worker: make values, hand references about, use them, drop them."""
    rng = random.Random(1000 * seed + rank)
    mine: list[Any] = []
    names: list[Any] = []
    told = []
    for step in range(5):
        move = rng.choice(("make", "make", "share", "wander", "use", "drop", "kept"))
        if move == "make" or not mine:
            name = (rank, step)
            mine.append(rpc.remote(rng.randrange(n), Box, args=(name,)))
            names.append(name)
            continue
        at = rng.randrange(len(mine))
        rref, name, to = mine[at], names[at], rng.randrange(n)
        if move == "share":
            told.append((rpc.remote(to, name_of, args=(rref,)).to_here(), name))
        elif move == "wander":
            path = [rng.randrange(n) for _ in range(rng.randrange(1, 4))]
            back = pass_on(rref, path, (rank, step))
            told.append((back.to_here().name, name))
        elif move == "use":
            told.append((rref.rpc_sync().tell(), name))
        elif move == "kept":
            rpc.remote(to, keep, args=((rank, step), rref))  # nobody waits for it
        else:
            del mine[at], names[at], rref
    return told


@pytest.mark.parametrize("block", range(10))
def test_nothing_leaks_or_ends_early_in_any_interleaving(block: int) -> None:
    for seed in range(200 * block, 200 * block + 200):
        n = 2 + seed % 3
        simulation = rpc.Simulation(n, seed, loss=0.15, repeat=0.15)
        told = simulation.run(lambda rank, n=n, seed=seed: wander(rank, n, seed))
        for got, wanted in (pair for each in told for pair in each):
            assert got == wanted, f"seed {seed}"
        stores.clear()
        assert counts(simulation) == [EMPTY] * n, f"seed {seed}"
        assert Box.alive == 0, f"seed {seed}"


def test_the_end_is_the_same_whatever_the_seed() -> None:
    ends = set()
    for seed in range(100):
        simulation = rpc.Simulation(3, seed, loss=0.3, repeat=0.3)
        told = simulation.run(lambda rank: wander(rank, 3, 7))
        ends.add((repr(told), repr(counts(simulation)), repr(sorted(stores))))
        stores.clear()
        assert counts(simulation) == [EMPTY] * 3
    assert len(ends) == 1


def test_a_seed_gives_one_run() -> None:
    runs = []
    for _ in range(2):
        simulation = rpc.Simulation(3, 11, loss=0.3, repeat=0.3)
        simulation.run(lambda rank: wander(rank, 3, 7))
        stores.clear()
        counts(simulation)
        runs.append((simulation.now, [agent.sent for agent in simulation.agents]))
    assert runs[0] == runs[1]


def test_calls_that_are_lost_leave_nothing_behind() -> None:
    failures = 0
    for seed in range(200):
        simulation = rpc.Simulation(3, seed, loss=0.1, repeat=0.1, call_loss=0.1)

        def program(rank: int, seed: int = seed) -> int:
            try:
                wander(rank, 3, seed)
            except (RpcTimeoutError, RRefError):
                return 1
            return 0

        failures += sum(simulation.run(program))
        stores.clear()
        assert counts(simulation) == [EMPTY] * 3, f"seed {seed}"
        assert Box.alive == 0, f"seed {seed}"
    assert failures > 100


def test_a_cut_delays_and_loses_nothing() -> None:
    for seed in range(100):
        simulation = rpc.Simulation(4, seed, loss=0.1)
        simulation.cut([seed % 4], 0.5, 20.0)
        for got, wanted in (
            pair for each in simulation.run(lambda rank: wander(rank, 4, 3)) for pair in each
        ):
            assert got == wanted
        stores.clear()
        assert counts(simulation) == [EMPTY] * 4
        assert Box.alive == 0


def test_the_handles_of_a_dead_worker_end() -> None:
    for seed in range(50):
        simulation = rpc.Simulation(3, seed, loss=0.1)

        def share(rank: int) -> None:
            keep("mine", rpc.remote(0, Box, args=("a",)))
            for to in (1, 2):
                rpc.remote(to, keep, args=("box", take("mine"))).to_here()
            keep("far", rpc.remote(2, Box, args=("b",)))
            assert take("far").to_here().name == "b"

        simulation.run(share, ranks=[0])
        stores[0].pop("mine")
        assert counts(simulation)[0]["num_forks"] == 2
        simulation.kill(2)
        assert counts(simulation)[0]["num_forks"] == 1

        def use(rank: int) -> None:
            with pytest.raises(RpcError, match=r"died|dead"):
                store()["far"].to_here()

        simulation.run(use, ranks=[0])
        simulation.run(lambda rank: forget("box"), ranks=[1])
        assert counts(simulation)[0]["num_owner_rrefs"] == 0
        stores.clear()


def test_a_shutdown_confirms_and_deletes_all_handles() -> None:
    for seed in range(50):
        simulation = rpc.Simulation(3, seed, loss=0.2, repeat=0.2)
        simulation.run(lambda rank: wander(rank, 3, seed))  # noqa: B023
        simulation.run(lambda rank: keep("x", rpc.remote((rank + 1) % 3, Box, args=(1,))))
        simulation.run(lambda rank: simulation.agents[rank].shut_down())  # noqa: B023
        assert [each["num_forks"] for each in counts(simulation)] == [0] * 3
        with pytest.raises(RRefError, match=r"Cannot call to_here\(\) on it after deletion"):
            stores[0]["x"].to_here()
        stores.clear()
