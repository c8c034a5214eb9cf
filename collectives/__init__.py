"""Floor 2: the world, its groups and their collectives."""

from __future__ import annotations

from shardwise.collectives import absence as absence  # says what to do about names that are not here
from shardwise.collectives.context import (
    flight_record,
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
from shardwise.collectives.device.placement import local_device
from shardwise.collectives.ending.preemption import REQUEUE, preempted, watch_preemption
from shardwise.collectives.form.barriers import barrier, monitored_barrier
from shardwise.collectives.form.coalesced import (
    all_gather_coalesced,
    all_reduce_coalesced,
    broadcast_coalesced,
    reduce_scatter_coalesced,
)
from shardwise.collectives.form.list_form import all_gather_list, all_to_all_list
from shardwise.collectives.form.message import P2POp, batch_isend_irecv, irecv, isend, recv, send, sendrecv
from shardwise.collectives.form.object_form import (
    all_gather_object,
    all_to_all_object,
    broadcast_object,
    broadcast_object_list,
    gather_object,
    scatter_object_list,
)
from shardwise.collectives.form.object_message import recv_object, send_object
from shardwise.collectives.form.personal import all_to_all, all_to_all_single
from shardwise.collectives.form.prefix import exscan, scan
from shardwise.collectives.form.rooted import broadcast, gather, reduce, scatter
from shardwise.collectives.form.symmetric import all_gather, all_reduce, reduce_scatter
from shardwise.collectives.form.tensor_form import (
    all_gather_into_tensor,
    all_gather_single,
    reduce_scatter_single,
    reduce_scatter_tensor,
)
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.ledger import Conversion, Ledger, Record, implicit, no_implicit
from shardwise.collectives.measurement import tally
from shardwise.collectives.mpi.communicator import Communicator, communicator_ranks
from shardwise.collectives.mpi.detect import LauncherEnvironment, launcher_environment
from shardwise.collectives.reduction import ReduceOp, Reduction
from shardwise.collectives.report.expectation import expect
from shardwise.collectives.report.explanation import Explanation, Moved, explain
from shardwise.collectives.subgroup import (
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)
from shardwise.collectives.symmetric_memory import SymmetricMemory, empty_symmetric, shares_memory
from shardwise.collectives.table import COLLECTIVES, Collective
from shardwise.collectives.thread.crew import run_threads
from shardwise.collectives.work import Work
from shardwise.collectives.world import World

__all__ = [
    "COLLECTIVES",
    "REQUEUE",
    "Collective",
    "Communicator",
    "Conversion",
    "Explanation",
    "LauncherEnvironment",
    "Ledger",
    "Moved",
    "P2POp",
    "ProcessGroup",
    "Record",
    "ReduceOp",
    "Reduction",
    "SymmetricMemory",
    "Work",
    "World",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_list",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_list",
    "all_to_all_object",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_coalesced",
    "broadcast_object",
    "broadcast_object_list",
    "communicator_ranks",
    "empty_symmetric",
    "expect",
    "explain",
    "exscan",
    "flight_record",
    "gather",
    "gather_object",
    "get_global_rank",
    "get_group",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world",
    "get_world_size",
    "implicit",
    "init",
    "irecv",
    "is_initialized",
    "isend",
    "launcher_environment",
    "local_device",
    "local_rank",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "no_implicit",
    "preempted",
    "rank",
    "recv",
    "recv_object",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_coalesced",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "run_threads",
    "scan",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object",
    "sendrecv",
    "shares_memory",
    "shutdown",
    "split_group",
    "tally",
    "watch_preemption",
    "world_size",
]
