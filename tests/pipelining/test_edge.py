"""Messages between ranks: received ahead of their use, within credits, in the order of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from shardwise.pipelining import lower
from shardwise.pipelining.edge import Edges, route
from shardwise.pipelining.meta import Meta
from shardwise.pipelining.need import Event, carried
from shardwise.pipelining.program import Program
from shardwise.pipelining.schedule.named import NAMED

META = Meta((1,), np.dtype(np.float64), True, None, (1,))


def programs() -> Iterator[tuple[str, Program]]:
    for name, named in NAMED.items():
        for p in (2, 4):
            program = named.program(name, p, 2 * p, 1 if named.per_rank == (1,) else 2)
            yield f"{name}-{p}", lower(program, skips={0: (program.stages - 1,)})


@pytest.mark.parametrize(("name", "program"), list(programs()), ids=[name for name, _ in programs()])
def test_both_ends_of_an_edge_have_one_order(name: str, program: Program) -> None:
    """What one rank sends to another, in its order, is what that one receives, in its own."""
    ways = [route(program, place) for place in range(len(program))]
    for sender, actions in enumerate(program):
        sent: dict[int, list[Event]] = {}
        for action in actions:
            if action.kind.startswith("SEND"):
                event = carried(action)
                sent.setdefault(ways[sender].peers[event], []).append(event)
        for receiver, events in sent.items():
            assert ways[receiver].incoming[sender] == tuple(events)
    for way in ways:
        assert way.credit.keys() == way.incoming.keys()
        assert all(2 <= credit <= max(2, len(way.incoming[peer])) for peer, credit in way.credit.items())


class Slow:
    """A link that counts what is awaited, and brings what is asked for."""

    def __init__(self) -> None:
        self.awaited: dict[int, int] = {}
        self.most: dict[int, int] = {}

    def send(self, array: Any, rank: int) -> Any:
        raise AssertionError("nothing is sent here")

    def receive(self, meta: Meta, rank: int) -> Any:
        self.awaited[rank] = self.awaited.get(rank, 0) + 1
        self.most[rank] = max(self.most.get(rank, 0), self.awaited[rank])
        link = self

        class Coming:
            def wait(self) -> Any:
                link.awaited[rank] -= 1
                return np.zeros(1)

        return Coming()


@pytest.mark.parametrize("place", range(3))
def test_no_more_is_awaited_than_there_is_credit(place: int) -> None:
    program = lower(NAMED["1F1B"].program("1F1B", 3, 8, 1))
    way, link = route(program, place), Slow()
    edges = Edges(way, (10, 11, 12), lambda event: [META], link, 10 + place)
    edges.begin()
    assert link.awaited == {
        10 + peer: min(way.credit[peer], len(way.incoming[peer])) for peer in way.incoming
    }
    for action in program.ranks[place]:
        if action.kind.startswith("RECV"):
            edges.expect(carried(action))
            edges.take(carried(action), "test")
    assert link.most == {10 + peer: credit for peer, credit in way.credit.items()}
    assert not any(link.awaited.values())


def test_credit_is_what_the_program_has_waiting() -> None:
    """A program that receives three values before it uses the first has room for three."""
    ahead = "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2\n1RECV_F0,1RECV_F1,1RECV_F2,1F0,1F1,1F2"
    assert route(Program.from_text(ahead), 1).credit == {0: 3}
