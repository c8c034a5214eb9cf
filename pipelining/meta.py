"""`Meta`, `Value`: what is known of tensors that cross between stages before they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ScheduleError
from shardwise.dtensor import DTensor, Placement
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.mesh import DeviceMesh
from shardwise.tensor import Tensor
from shardwise.tensor.tree import TreeDef

__all__ = ["Meta", "Value", "differences", "part_of"]


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known of one tensor.

    Attributes
    ----------
    shape : tuple of int
        Of the whole.
    dtype : dtype
    requires_grad : bool
    placements : tuple of Placement, optional
        Of a DTensor: each stage has it on its own mesh.
    local_shape : tuple of int
        Of the part that goes from rank to rank; `shape` for a plain tensor.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    requires_grad: bool
    placements: tuple[Placement, ...] | None = None
    local_shape: tuple[int, ...] = ()

    @classmethod
    def of(cls, tensor: Tensor) -> Meta:
        """Return what is known of a tensor."""
        shape, dtype = tuple(tensor.shape), np.dtype(tensor.dtype)
        if isinstance(tensor, DTensor):
            placements, local = tuple(tensor.layout.placements), tuple(tensor.data.local.shape)
            return cls(shape, dtype, tensor.requires_grad, placements, local)
        return cls(shape, dtype, tensor.requires_grad, None, shape)

    def tensor(self, local: Array, mesh: DeviceMesh | None, requires_grad: bool) -> Tensor:
        """Return the tensor that an array is this rank's part of, as a leaf."""
        found: Tensor
        if self.placements is None:
            found = Tensor(local)
        else:
            if mesh is None:
                raise ScheduleError(
                    f"a stage takes a DTensor of {list(self.placements)} and has no mesh to put it on; give "
                    "its PipelineStage mesh=, or let the stage before give a plain tensor"
                )
            found = DTensor(ShardedArray(local, Layout(mesh, self.placements, self.shape, self.dtype)))
        found.requires_grad = requires_grad and self.requires_grad
        return found

    @property
    def nbytes(self) -> int:
        """Bytes that go from rank to rank."""
        return prod(self.local_shape) * self.dtype.itemsize

    def __str__(self) -> str:
        where = "" if self.placements is None else f" {list(self.placements)}"
        return f"{self.dtype}{list(self.shape)}{where}"


_NOTHING: Final[Mapping[str, Meta]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Value:
    """What a stage gives for one microbatch: tensors, and how they are nested.

    Attributes
    ----------
    metas : tuple of Meta
        What goes to the next stage.
    tree : TreeDef
    stashed : dict of str to Meta
        What it puts aside for later stages.
    fetched : tuple of str
        What it takes of that from earlier stages, in the order of their names.
    """

    metas: tuple[Meta, ...]
    tree: TreeDef
    stashed: Mapping[str, Meta] = field(default_factory=dict)
    fetched: tuple[str, ...] = ()


def part_of(tensor: Tensor) -> Array:
    """Return what this rank holds of a tensor."""
    data: Any = tensor.data
    local: Array = data.local if isinstance(data, ShardedArray) else data
    return local


def differences(wanted: Any, got: tuple[Meta, ...]) -> str:
    """Say field by field how tensors differ from those that were declared; nothing, if they do not.

    Parameters
    ----------
    wanted : sequence of tensors or arrays
        With shape and dtype.
    got : tuple of Meta
    """
    if len(wanted) != len(got):
        return f"wanted {len(wanted)} tensors, got {len(got)}"
    found = []
    for i, (a, b) in enumerate(zip(wanted, got, strict=True)):
        if tuple(a.shape) != b.shape:
            found.append(f"tensor {i} has the shape {list(b.shape)}, wanted {list(a.shape)}")
        if np.dtype(a.dtype) != b.dtype:
            found.append(f"tensor {i} has the dtype {b.dtype}, wanted {np.dtype(a.dtype)}")
    return "; ".join(found)
