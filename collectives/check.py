"""What a collective wants of its arguments: looked at on each rank before anything is sent.

Every message begins with the operation, the group and the rank. A rule looks only at what all ranks must
give alike, so that all ranks raise alike and none is left waiting.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, DTypeError, ShapeError
from shardwise.collectives.group import ProcessGroup

__all__ = ["check_dim", "check_output", "check_parts", "check_root"]


def check_dim(dim: int, ndim: int, op: str, group: ProcessGroup, name: str = "dim") -> int:
    """Give `dim` counted from the front.

    Raises
    ------
    ShapeError
        If an array of `ndim` dims has no such dim.
    """
    place = operator.index(dim)
    if not -ndim <= place < ndim:
        hint = (
            "reshape it to one dim first, x.reshape(1)"
            if ndim == 0
            else f"choose one from {-ndim} to {ndim - 1}"
        )
        raise ShapeError(f"{group.where(op)}: {name}={dim} of an array with {ndim} dims; {hint}.")
    return place % ndim


def check_parts(shape: tuple[int, ...], dim: int, op: str, group: ProcessGroup) -> None:
    """Raise unless `dim` splits into equal parts, one for each rank.

    Raises
    ------
    ShapeError
    """
    extent, n = shape[dim], group.size
    if extent % n:
        wanted = -(-extent // n) * n
        raise ShapeError(
            f"{group.where(op)}: dim {dim} of shape {list(shape)} has {extent} elements, "
            f"which {n} ranks cannot share equally; "
            f"pad it to {wanted}, or use a group whose size divides {extent}."
        )


def check_root(root: int, name: str, op: str, group: ProcessGroup) -> int:
    """Give the group rank of global rank `root`.

    Raises
    ------
    CollectiveError
        If it is not a member.
    """
    if root not in group.ranks:
        raise CollectiveError(
            f"{group.where(op)}: {name}={root} is not one of its global ranks {list(group.ranks)}; "
            f"{name} counts in the world, and group.ranks[i] gives it for rank i of the group."
        )
    return group.ranks.index(root)


def check_output(
    out: Array,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    where: Callable[[], str],
) -> None:
    """Raise unless the result fits into `out`.

    Raises
    ------
    ShapeError, DTypeError
    """
    if not isinstance(out, np.ndarray):
        raise DTypeError(f"{where()}: out must be a numpy.ndarray, got {type(out).__name__}.")
    if out.shape != shape:
        raise ShapeError(
            f"{where()}: the result has shape {list(shape)}, out has {list(out.shape)}; "
            f"give out=numpy.empty({shape}, '{dtype}')."
        )
    if out.dtype != dtype:
        raise DTypeError(
            f"{where()}: the result has dtype {dtype}, out has {out.dtype}; "
            f"give out=numpy.empty({shape}, '{dtype}')."
        )
    if not out.flags.writeable:
        raise ShapeError(f"{where()}: out is read-only; give a writable array.")
