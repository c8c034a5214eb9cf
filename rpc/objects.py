"""What stands on an agent: remote references, actors, distributed autograd."""

from __future__ import annotations

from shardwise.rpc.agent import Agent
from shardwise.rpc.autograd.contexts import Contexts
from shardwise.rpc.courier import Courier
from shardwise.rpc.rref_service import join_rrefs

__all__ = ["join_objects"]


def join_objects(agent: Agent) -> None:
    """Let an agent carry all of it; once, before the first message can come."""
    courier = Courier(agent)
    agent.parts[Courier] = courier
    agent.parts[Contexts] = Contexts(agent, courier)
    join_rrefs(agent, courier)
