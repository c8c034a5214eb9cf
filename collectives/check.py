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

__all__ = ["check_dim", "check_output", "check_parts", "check_root", "check_tag", "readable"]


def readable(x: object, op: str, where: Callable[[], str]) -> Array:
    """Give `x` as a C-contiguous array of native byte order, without a copy where it is one.

    Raises
    ------
    DTypeError
        If it holds Python objects.
    """
    if type(x) is np.ndarray and x.flags.c_contiguous and x.dtype.isnative and not x.dtype.hasobject:
        return x
    array = np.asarray(x)
    if array.dtype.hasobject:
        raise DTypeError(
            f"{where()}: wanted an array of numbers, got {type(x).__name__} of dtype {array.dtype}; "
            f"use {op}_object for Python objects."
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else array.copy(order="C")


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


def check_tag(tag: int, op: str, rank: int) -> int:
    """Raise unless `tag` can be carried by every transport.

    Raises
    ------
    CollectiveError
    """
    if not 0 <= operator.index(tag) < 1 << 20:
        raise CollectiveError(f"{op} on rank {rank}: tag={tag}; choose one from 0 to {(1 << 20) - 1}.")
    return operator.index(tag)


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
