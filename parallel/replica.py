"""Replicas of one module: made the same on all ranks of a group, or found to differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ModuleError
from shardwise.collectives import ProcessGroup, all_gather_object, broadcast, implicit
from shardwise.dtensor import DTensor
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.nn import Module
from shardwise.parallel.bucket import plan_buckets
from shardwise.tensor import Tensor

__all__ = ["check_alike", "copy_from_first", "part_of"]

_PIECE = 250 * 1024 * 1024  # bytes; what is broadcast at once needs as much memory again


def check_alike(module: Module, options: str, group: ProcessGroup) -> None:
    """Compare a module's parameters, buffers and options over a group.

    Parameters
    ----------
    module : Module
    options : str
        Whatever else has to be the same, spelled out.
    group : ProcessGroup

    Raises
    ------
    ModuleError
        Names the first thing that differs; the same on all ranks.

    Notes
    -----
    Gathers the descriptions, some tens of bytes per tensor, from all ranks.
    """
    with implicit():
        everyone = all_gather_object((_describe(module), options), group)
    first, first_options = everyone[0]
    for place, (other, other_options) in enumerate(everyone):
        a, b = group.ranks[0], group.ranks[place]
        if first_options != other_options:
            raise ModuleError(
                f"DistributedDataParallel was given different options: {first_options} on rank {a}, "
                f"{other_options} on rank {b}. Give all ranks the same."
            )
        for mine, theirs in zip(first, other, strict=False):
            if mine != theirs:
                raise ModuleError(
                    f"the module differs between ranks: rank {a} has {mine} where rank {b} has {theirs}. "
                    "Build the same model on all ranks."
                )
        if len(first) != len(other):
            longer, rank = (first, a) if len(first) > len(other) else (other, b)
            raise ModuleError(
                f"the module differs between ranks: rank {a} has {len(first)} parameters and buffers, "
                f"rank {b} has {len(other)}; only rank {rank} has {longer[min(len(first), len(other))]}. "
                "Build the same model on all ranks."
            )


def _describe(module: Module) -> list[str]:
    parameters = [
        f"{name} {p.shape} {p.dtype}{_lying(p)}{'' if p.requires_grad else ' (frozen)'}"
        for name, p in module.named_parameters()
    ]
    return parameters + [f"buffer {name} {b.shape} {b.dtype}" for name, b in module.named_buffers()]


def _lying(p: Tensor) -> str:
    """Say how a sharded parameter lies, if it is one."""
    return f" [{p.layout}], here {list(p.data.local.shape)}" if isinstance(p, DTensor) else ""


def part_of(array: Any) -> Array:
    """Return the part of an array that this rank holds: all of it, but of a sharded one."""
    return array.local if isinstance(array, ShardedArray) else array


def copy_from_first(tensors: Sequence[Tensor], group: ProcessGroup) -> None:
    """Take over the values that tensors have on the group's first rank.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of the same shapes and dtypes on all ranks.
    group : ProcessGroup

    Notes
    -----
    One broadcast per dtype, and per 250 MiB.
    """
    if group.size == 1:
        return
    parts = [part_of(t.data) for t in tensors]
    for plan in plan_buckets([part.size for part in parts], [part.dtype for part in parts], _PIECE):
        flat = np.zeros_like(parts[plan.slots[0].index], shape=(plan.size,))
        for slot in plan.slots:
            flat[slot.start : slot.start + slot.size] = parts[slot.index].reshape(-1)
        with implicit():
            broadcast(flat, src=group.ranks[0], group=group, out=flat)
        for slot in plan.slots:
            part = parts[slot.index]
            part[...] = flat[slot.start : slot.start + slot.size].reshape(part.shape)
            tensors[slot.index].version.count += 1
