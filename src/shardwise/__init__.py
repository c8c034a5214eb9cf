"""Torch-free distributed training over a sharded tensor: NumPy and CuPy, MPI and NCCL.

Importing the package starts nothing and loads nothing but this file; each public name loads
its module when it is first used (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from shardwise.backend.errors import ShardwiseError as ShardwiseError
    from shardwise.collectives import all_gather as all_gather
    from shardwise.collectives import all_reduce as all_reduce
    from shardwise.collectives import barrier as barrier
    from shardwise.collectives import broadcast as broadcast
    from shardwise.collectives import explain as explain
    from shardwise.collectives import local_rank as local_rank
    from shardwise.collectives import rank as rank
    from shardwise.collectives import reduce_scatter as reduce_scatter
    from shardwise.collectives import shutdown as shutdown
    from shardwise.collectives import world_size as world_size
    from shardwise.launch import spawn as spawn
    from shardwise.mesh import DeviceMesh as DeviceMesh
    from shardwise.mesh import init_device_mesh as init_device_mesh
    from shardwise.tensor import Function as Function
    from shardwise.tensor import Tensor as Tensor
    from shardwise.tensor import arange as arange
    from shardwise.tensor import as_tensor as as_tensor
    from shardwise.tensor import cat as cat
    from shardwise.tensor import detect_anomaly as detect_anomaly
    from shardwise.tensor import empty as empty
    from shardwise.tensor import enable_grad as enable_grad
    from shardwise.tensor import from_numpy as from_numpy
    from shardwise.tensor import full as full
    from shardwise.tensor import initial_seed as initial_seed
    from shardwise.tensor import is_grad_enabled as is_grad_enabled
    from shardwise.tensor import manual_seed as manual_seed
    from shardwise.tensor import no_grad as no_grad
    from shardwise.tensor import ones as ones
    from shardwise.tensor import ones_like as ones_like
    from shardwise.tensor import rand as rand
    from shardwise.tensor import randint as randint
    from shardwise.tensor import randn as randn
    from shardwise.tensor import randperm as randperm
    from shardwise.tensor import recompute as recompute
    from shardwise.tensor import set_grad_enabled as set_grad_enabled
    from shardwise.tensor import stack as stack
    from shardwise.tensor import tensor as tensor
    from shardwise.tensor import where as where
    from shardwise.tensor import zeros as zeros
    from shardwise.tensor import zeros_like as zeros_like

_HOME = {  # public name -> the package it lives in
    "shardwise.backend.errors": ("ShardwiseError",),
    "shardwise.collectives": (
        "all_gather", "all_reduce", "barrier", "broadcast", "explain", "local_rank", "rank",
        "reduce_scatter", "shutdown", "world_size",
    ),
    "shardwise.launch": ("spawn",),
    "shardwise.mesh": ("DeviceMesh", "init_device_mesh"),
    "shardwise.tensor": (
        "Function", "Tensor", "arange", "as_tensor", "cat", "detect_anomaly", "empty", "enable_grad",
        "from_numpy", "full", "initial_seed", "is_grad_enabled", "manual_seed", "no_grad", "ones",
        "ones_like", "rand", "randint", "randn", "randperm", "recompute", "set_grad_enabled", "stack",
        "where", "zeros", "zeros_like",
    ),
}  # fmt: skip
_PACKAGES = ("backend", "collectives", "errors", "launch", "mesh", "nn", "optim", "parallel", "tensor")

__all__ = [
    "__version__",
    "tensor",
    *(name for names in _HOME.values() for name in names),
]


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"shardwise.{name}")
    for home, names in _HOME.items():
        if name in names:
            value: object = importlib.import_module(home).__dict__[name]
            globals()[name] = value
            return value
    raise AttributeError(f"module 'shardwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
