"""A worker is killed: whoever waits for it is told, soon; and it is told who has gone."""

from __future__ import annotations

import os
import signal
import time

import pytest

from ranks import remote
from ranks.agents import make_agent, neighbour, pair, places
from shardwise.errors import PeerDiedError, RpcError, RpcTimeoutError

ENVIRONMENT = "PYTHONPATH"


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the other process import what the tests do."""
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    monkeypatch.setenv(ENVIRONMENT, os.pathsep.join([tests, os.environ.get(ENVIRONMENT, "")]))


@pytest.mark.parametrize("hosts", ["aa", "ab"], ids=["one host", "two hosts"])
def test_pending_calls_fail_when_their_worker_is_killed(hosts: str) -> None:
    with neighbour(hosts) as (agent, process):
        assert agent.send(1, "call", (remote.add, (1, 2), {})).wait() == 3
        pending = [agent.send(1, "call", (remote.sleep, (30.0,), {})) for _ in range(20)]
        deaths: list[int] = []
        agent.on_death(lambda worker, error: deaths.append(worker))
        began = time.monotonic()
        process.send_signal(signal.SIGKILL)
        for future in pending:
            with pytest.raises(PeerDiedError, match=rf"w1 \(rank 1, host host-{hosts[1]}, pid \d+\) is gone"):
                future.wait(5)
        assert time.monotonic() - began < 2
        assert deaths == [1]
        with pytest.raises(PeerDiedError):
            agent.send(1, "call", (remote.nothing, (), {})).wait(2)
        agent.post(1, "call", (remote.nothing, (), {}))  # nobody is told
        assert agent.send(0, "call", (remote.add, (1, 2), {})).wait(5) == 3
        assert agent.debug_info()["num_pending_futures"] == 0


def test_a_fork_does_not_keep_its_worker_alive() -> None:
    with neighbour() as (agent, process):
        child = agent.send(1, "call", (remote.fork_a_sleeper, (8.0,), {})).wait(10)
        assert agent.send(1, "call", (remote.add, (1, 2), {})).wait(10) == 3
        pending = agent.send(1, "call", (remote.sleep, (30.0,), {}))
        began = time.monotonic()
        process.kill()
        with pytest.raises(PeerDiedError):
            pending.wait(5)
        assert time.monotonic() - began < 2
        os.kill(child, signal.SIGKILL)


def test_who_waits_for_room_is_told_too() -> None:
    with neighbour() as (agent, process):
        agent.options.window_calls = 1
        agent.send(1, "call", (remote.sleep, (30.0,), {}))
        began = time.monotonic()
        process.kill()
        with pytest.raises(PeerDiedError):
            agent.send(1, "call", (remote.nothing, (), {})).wait(5)
        assert time.monotonic() - began < 2


def test_nobody_listens() -> None:
    sockets, addresses = places(2)
    for each in sockets[1]:
        each.close()
    agent = make_agent(0, sockets[0], addresses)
    began = time.monotonic()
    with pytest.raises(PeerDiedError, match="cannot be reached at its local socket"):
        agent.send(1, "call", (remote.nothing, (), {})).wait(5)
    assert time.monotonic() - began < 2
    agent.close()


def test_a_stopped_worker_is_not_dead_and_calls_time_out() -> None:
    with neighbour() as (agent, process):
        assert agent.send(1, "call", (remote.add, (1, 2), {})).wait() == 3
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(RpcTimeoutError):
            agent.send(1, "call", (remote.nothing, (), {}), 0.2).wait()
        process.send_signal(signal.SIGCONT)
        assert agent.send(1, "call", (remote.add, (1, 2), {})).wait(5) == 3


def test_a_closed_agent_fails_what_waits() -> None:
    with pair() as (first, _):
        future = first.send(1, "call", (remote.sleep, (0.2,), {}))
        first.close()
        with pytest.raises(RpcError, match="w0 was shut down before the answer came"):
            future.wait(2)
        with pytest.raises(RpcError, match="RPC has not been initialized"):
            first.send(1, "call", (remote.nothing, (), {}))
