"""Are replicas equal? Compared by hash over the ranks."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from shardwise.backend.errors import LayoutError
from shardwise.backend.select import backend_of
from shardwise.collectives import all_gather, get_world
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Replicate

__all__ = ["check_replicas", "checks_replicas", "compare_replicas"]


def checks_replicas() -> bool:
    """Tell whether the world is in debug mode, in which replicas that come from ranks are compared."""
    return get_world().debug


def check_replicas(tensor: Any) -> None:
    """Raise on all ranks of the mesh unless the replicas of a DTensor are equal, bit for bit.

    Parameters
    ----------
    tensor : DTensor
        All ranks of its mesh call this. Where nothing is replicated there is nothing to do.

    Raises
    ------
    LayoutError
        Names a rank that holds other values than the first one of its line.

    Notes
    -----
    Sends 16 bytes along each axis. With ``SHARDWISE_DEBUG=1`` replicas are compared wherever ranks bring
    their own: in `DTensor.from_local`, under `implicit_replication`, and for gradients of `to_local`.
    """
    compare_replicas("check_replicas", tensor.data.local, tensor.layout)


def compare_replicas(name: str, local: Any, layout: Layout) -> None:
    """Compare the parts along the axes that replicate; see `check_replicas`."""
    mesh = layout.mesh
    here = mesh.get_coordinate()
    kept = [
        isinstance(kind, Replicate) and n > 1 for kind, n in zip(layout.placements, mesh.shape, strict=True)
    ]
    if here is None or not any(kept):
        return
    # All axes, also those along which ranks differ: then all ranks know of all, and raise alike.
    hashes = np.array(_hash(local))
    for group in reversed(mesh.get_all_groups()):
        hashes = all_gather(np.ascontiguousarray(hashes[None]), group)
    for axis, same in enumerate(kept):
        if same:
            differ = (hashes != np.take(hashes, [0], axis)).any(-1)
            if differ.any():
                place = tuple(map(int, np.argwhere(differ)[0]))
                first = (*place[:axis], 0, *place[axis + 1 :])
                raise LayoutError(
                    f"{name}: the replicas of a tensor of shape {layout.shape} as {layout} on {mesh!r} "
                    f"differ: rank {mesh.mesh[place]} at {place} holds other values than rank "
                    f"{mesh.mesh[first]} at {first}. Were they made from the same values, with the same "
                    "seed? If these are terms of a sum, say Partial()"
                )


def _hash(local: Any) -> list[int]:
    host = np.ascontiguousarray(backend_of(local).to_host(local))
    digest = blake2b(host.reshape(-1).view(np.uint8).data, digest_size=16).digest()
    return [int(n) for n in np.frombuffer(digest, np.int64)]
