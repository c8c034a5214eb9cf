"""What happens where plain tensors meet sharded ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["implicit_replication", "replicates_tensors"]

_replicates: ContextVar[bool] = ContextVar("shardwise_implicit_replication", default=False)
replicates_tensors = _replicates.get


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Take tensors and arrays that meet DTensors for replicas, in a ``with`` block.

    They must be the same on all ranks of the mesh.
    """
    token = _replicates.set(True)
    try:
        yield
    finally:
        _replicates.reset(token)
