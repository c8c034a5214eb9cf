"""Floor 7: remote procedure calls, RRef, distributed autograd."""

from __future__ import annotations

from shardwise.rpc import autograd as autograd
from shardwise.rpc import functions as functions  # its own names stay below it, as PyTorch has them
from shardwise.rpc.call import rpc_async, rpc_sync, wait_all_calls
from shardwise.rpc.call import wait_all_calls as _wait_all
from shardwise.rpc.distributed_optimizer import DistributedOptimizer, DistributedScheduler
from shardwise.rpc.future import Future, collect_all, wait_all
from shardwise.rpc.making import remote, stream
from shardwise.rpc.meeting import gather_from_workers, meet_workers
from shardwise.rpc.meeting import gather_from_workers as _all_gather
from shardwise.rpc.meeting import meet_workers as _barrier
from shardwise.rpc.remote_module import RemoteModule
from shardwise.rpc.rref import RRef
from shardwise.rpc.rref_ledger import RRefRecord, rref_ledger
from shardwise.rpc.serving.options import RpcBackendOptions
from shardwise.rpc.simulation import Simulation
from shardwise.rpc.start import (
    debug_info,
    get_rpc_timeout,
    get_worker_info,
    init_rpc,
    is_available,
    set_rpc_timeout,
    shutdown,
    stats,
)
from shardwise.rpc.start import set_rpc_timeout as _set_rpc_timeout
from shardwise.rpc.worker_info import WorkerInfo

__all__ = [
    "DistributedOptimizer",
    "DistributedScheduler",
    "Future",
    "RRef",
    "RRefRecord",
    "RemoteModule",
    "RpcBackendOptions",
    "Simulation",
    "WorkerInfo",
    "_all_gather",
    "_barrier",
    "_set_rpc_timeout",
    "_wait_all",
    "autograd",
    "collect_all",
    "debug_info",
    "functions",
    "gather_from_workers",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "meet_workers",
    "remote",
    "rpc_async",
    "rpc_sync",
    "rref_ledger",
    "set_rpc_timeout",
    "shutdown",
    "stats",
    "stream",
    "wait_all",
    "wait_all_calls",
]
