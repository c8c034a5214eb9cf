"""Agents of remote calls without a world: in this process, and in another that can be killed."""

from __future__ import annotations

import base64
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shardwise.rpc.call import attach_calls
from shardwise.rpc.serving.gather import attach_gathering
from shardwise.rpc.serving.options import RpcBackendOptions
from shardwise.rpc.serving.socket_agent import SocketAgent
from shardwise.rpc.wire.address import Address, listen
from shardwise.rpc.worker_info import WorkerInfo

KEY = bytes(range(32))


def places(n: int, hosts: str = "aa") -> tuple[list[list[socket.socket]], list[Address]]:
    """Listen for so many workers, each on the host of its letter: those of others are reached by TCP."""
    made = [listen(hosts[i], f"host-{hosts[i]}", "127.0.0.1") for i in range(n)]
    return [sockets for sockets, _ in made], [address for _, address in made]


def make_agent(
    me: int,
    sockets: Sequence[socket.socket],
    addresses: Sequence[Address],
    key: bytes = KEY,
    options: RpcBackendOptions | None = None,
) -> SocketAgent:
    """Make an agent that serves calls."""
    workers = [WorkerInfo(f"w{i}", i) for i in range(len(addresses))]
    agent = SocketAgent(
        me, workers, range(len(addresses)), addresses, key, sockets, options or RpcBackendOptions()
    )
    attach_gathering(agent)
    attach_calls(agent)
    return agent


@contextmanager
def pair(hosts: str = "aa", options: RpcBackendOptions | None = None) -> Iterator[list[SocketAgent]]:
    """Two agents of this process."""
    sockets, addresses = places(2, hosts)
    agents = [make_agent(i, sockets[i], addresses, options=options) for i in range(2)]
    yield agents
    for agent in agents:
        agent.part()
    for agent in agents:
        agent.close()


@contextmanager
def neighbour(hosts: str = "aa") -> Iterator[tuple[SocketAgent, subprocess.Popen[str]]]:
    """Agent 0 here, and agent 1 in a process of its own."""
    (sockets, *_), (mine, *_) = places(1, hosts)
    start = base64.b64encode(pickle.dumps((mine, hosts))).decode()
    code = f"from ranks.agents import serve; serve({start!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        theirs: Address = pickle.loads(base64.b64decode(process.stdout.readline()))
        agent = make_agent(0, sockets, [mine, theirs])
        yield agent, process
        agent.part()
        agent.close()
        process.kill()


def serve(start: str) -> None:
    """Be agent 1 until stdin ends; what `neighbour` runs."""
    mine, hosts = pickle.loads(base64.b64decode(start))
    sockets, address = listen(hosts[1], f"host-{hosts[1]}", "127.0.0.1")
    agent = make_agent(1, sockets, [mine, address])
    sys.stdout.write(base64.b64encode(pickle.dumps(address)).decode() + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    agent.part()
    agent.close()
