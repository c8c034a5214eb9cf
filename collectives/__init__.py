"""Floor 2: the world, its groups and their collectives."""

from __future__ import annotations

from shardwise.collectives.crew import run_threads
from shardwise.collectives.detect import LauncherEnvironment, launcher_environment
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.ledger import Explanation, Ledger, Record, implicit
from shardwise.collectives.message import irecv, isend, recv, send
from shardwise.collectives.object_form import (
    all_gather_object,
    broadcast_object,
    gather_object,
    recv_object,
    send_object,
)
from shardwise.collectives.reduction import ReduceOp
from shardwise.collectives.rooted import broadcast, gather, reduce, scatter
from shardwise.collectives.symmetric import all_gather, all_reduce, all_to_all, barrier, reduce_scatter
from shardwise.collectives.table import COLLECTIVES, Collective
from shardwise.collectives.work import Work
from shardwise.collectives.world import (
    World,
    explain,
    get_group,
    get_world,
    init,
    is_initialized,
    local_rank,
    new_group,
    rank,
    shutdown,
    world_size,
)

__all__ = [
    "COLLECTIVES",
    "Collective",
    "Explanation",
    "LauncherEnvironment",
    "Ledger",
    "ProcessGroup",
    "Record",
    "ReduceOp",
    "Work",
    "World",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "broadcast_object",
    "explain",
    "gather",
    "gather_object",
    "get_group",
    "get_world",
    "implicit",
    "init",
    "irecv",
    "is_initialized",
    "isend",
    "launcher_environment",
    "local_rank",
    "new_group",
    "rank",
    "recv",
    "recv_object",
    "reduce",
    "reduce_scatter",
    "run_threads",
    "scatter",
    "send",
    "send_object",
    "shutdown",
    "world_size",
]
