"""Make sharded tensors of plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.dtensor.boundary import FromLocal, cross
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.layout import Layout, Placements
from shardwise.dtensor.parameter import ShardedParameter
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.mesh import DeviceMesh
from shardwise.nn import Parameter
from shardwise.tensor.tensor import Tensor

__all__ = ["distribute_tensor", "from_local"]


def distribute_tensor(
    tensor: Any,
    device_mesh: DeviceMesh,
    placements: Placements | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    whole = Layout(device_mesh, placements or ("R",) * device_mesh.ndim, tensor.shape, tensor.dtype)
    data = tensor.data if isinstance(tensor, Tensor) else np.asarray(tensor)
    key: Any = (*whole.box(device_mesh.get_coordinate() or ()).slices, ...)
    local = data[key]
    kind = ShardedParameter if isinstance(tensor, Parameter) else DTensor
    out = kind(ShardedArray(local.copy(), whole))
    out.requires_grad = getattr(tensor, "requires_grad", False)
    return out


def from_local(local: Any, mesh: DeviceMesh, placements: Placements, shape: Any = None) -> Any:
    tensor = local if isinstance(local, Tensor) else Tensor(np.asarray(local))
    kinds = Layout(mesh, placements, tensor.shape, tensor.dtype)
    whole = list(tensor.shape)
    for d, axes in enumerate(kinds.order):
        for a in axes:
            whole[d] *= mesh.shape[a]
    return cross(FromLocal, tensor, layout=Layout(mesh, placements, tuple(shape or whole), tensor.dtype))
