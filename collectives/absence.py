"""What scripts for torch.distributed ask for and is not here, and what to do about it."""

from __future__ import annotations

import sys

__all__: list[str] = []

_INIT = (
    "leave it out, or call init(timeout=...): shardwise run, mpirun or srun say who is in the world. "
    "Mind that collectives return their result, and fill only what is given as out=: all_reduce(x, out=x); "
    "see docs/how-to/from-pytorch.md"
)
_ALWAYS = "leave it out; get_world().transport.name and get_group().device_transport say how arrays go"
_STORE = "broadcast_object() and all_gather_object() exchange what ranks need to know"
_INSTEAD = {
    "Backend": _ALWAYS,
    "DeviceMesh": "that is shardwise.mesh.DeviceMesh",
    "FileStore": _STORE,
    "GroupMember": "group=None stands for all ranks",
    "HashStore": _STORE,
    "PrefixStore": _STORE,
    "Store": _STORE,
    "TCPStore": _STORE,
    "destroy_process_group": "leave it out, or call shutdown() on all ranks",
    "get_backend": _ALWAYS,
    "get_node_local_rank": "that is local_rank()",
    "init_device_mesh": "that is shardwise.mesh.init_device_mesh()",
    "init_process_group": _INIT,
    "is_available": "leave it out; it is",
    "is_backend_available": _ALWAYS,
    "is_gloo_available": _ALWAYS,
    "is_mpi_available": _ALWAYS,
    "is_nccl_available": _ALWAYS,
    "is_torchelastic_launched": "launcher_environment() says who started this process",
    "nn": "on tensors the functions here have gradients",
    "recv_object_list": "objects = recv_object(src)",
    "reduce_op": "that is ReduceOp",
    "send_object_list": "send_object(objects, dst)",
}


def _absent(name: str) -> object:
    message = f"module 'shardwise.collectives' has no attribute {name!r}"
    if name not in _INSTEAD:
        raise AttributeError(message)
    # With a name and no object, so that Python adds no guess of its own.
    raise AttributeError(f"{message}: {_INSTEAD[name]}", name=name)


# Not as a function of the package: with one, a type checker takes every name to be there.
vars(sys.modules["shardwise.collectives"])["__getattr__"] = _absent
