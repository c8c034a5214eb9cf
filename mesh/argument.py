"""What is said of a mesh, checked before anything is made of it: device, names, ranks, sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from shardwise.backend.errors import LayoutError
from shardwise.collectives import local_device
from shardwise.mesh.grid import RankGrid

__all__ = [
    "DeviceType",
    "Names",
    "check_device",
    "checked_names",
    "chosen_device",
    "filled_sizes",
    "rank_grid",
]

DeviceType = Literal["auto", "cpu", "cuda"]

Names = tuple[str, ...] | None
"""Of the axes of a mesh."""


def check_device(device_type: str, auto: bool = False) -> None:
    """Refuse what is no kind of device; "auto" is one only where it can still be chosen."""
    wanted = ("auto", "cpu", "cuda") if auto else ("cpu", "cuda")
    if device_type not in wanted:
        hint = ""
        if isinstance(device_type, str) and ":" in device_type:
            hint = "; a mesh takes the kind of device only, each rank gets its own index"
        raise LayoutError(f"device_type must be one of {wanted}, got {device_type!r}{hint}")


def chosen_device(device_type: DeviceType) -> str:
    """Give "cpu" or "cuda", and with CUDA let this rank's arrays be made on its own device."""
    check_device(device_type, auto=True)
    return local_device(device_type).partition(":")[0]


def checked_names(names: Sequence[str] | None, shape: tuple[int, ...]) -> Names:
    """Give the names of the axes as a tuple, one for each and all different; None for None."""
    if names is None:
        return None
    checked = tuple(names) if isinstance(names, Sequence) and not isinstance(names, str) else ("",)
    if not all(isinstance(name, str) and name for name in checked):
        raise LayoutError(f"mesh_dim_names must be a tuple of names, such as ('dp',), got {names!r}")
    if len(checked) != len(shape):
        raise LayoutError(f"a mesh of shape {shape} needs {len(shape)} mesh_dim_names, got {checked}")
    if len(set(checked)) != len(checked):
        raise LayoutError(f"mesh_dim_names must be different from each other, got {checked}")
    return checked


def rank_grid(ranks: npt.ArrayLike) -> RankGrid:
    """Give the ranks of a mesh as an array: distinct, at least one, on at least one axis."""
    try:
        array = np.asarray(ranks)
    except ValueError:
        raise LayoutError(f"the ranks of a mesh must form a full grid, got {ranks!r}") from None
    if array.size and array.dtype.kind not in "iu":
        raise LayoutError(f"the ranks of a mesh must be integers, got {array.dtype}: {ranks!r}")
    if not array.ndim:
        raise LayoutError(f"a mesh has at least one axis; write [{ranks!r}] for a mesh of one rank")
    if not array.size or np.unique(array).size != array.size:
        raise LayoutError(f"a mesh needs distinct ranks, at least one; got {array.tolist()}")
    return array.astype(np.int64)


def filled_sizes(sizes: Sequence[int], total: int) -> tuple[int, ...] | None:
    """Give the sizes with a -1 replaced by what is left of `total`; None if they do not divide it.

    Raises
    ------
    LayoutError
        If they are no sizes.

    Examples
    --------
    >>> filled_sizes((2, -1), 6), filled_sizes((-1, 4), 6), filled_sizes((2, 2), 6)
    ((2, 3), None, (2, 2))
    """
    whole = all(isinstance(n, int | np.integer) and (n > 0 or n == -1) for n in sizes)
    if not whole or list(sizes).count(-1) > 1 or not sizes:
        raise LayoutError(f"a mesh shape has positive whole sizes and at most one -1; got {sizes}")
    known = math.prod(n for n in sizes if n != -1)
    if -1 in sizes and total % known:
        return None
    return tuple(total // known if n == -1 else int(n) for n in sizes)
