"""What a collective wants of its arguments: looked at on each rank before anything is sent.

Every message begins with the operation, the group and the rank. A rule looks only at what all ranks must
give alike, so that all ranks raise alike and none is left waiting.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.errors import CollectiveError, DTypeError, ShapeError
from shardwise.collectives.group import ProcessGroup

__all__ = [
    "check_all_sizes",
    "check_dim",
    "check_output",
    "check_own_size",
    "check_parts",
    "check_root",
    "check_share",
    "check_sizes",
    "check_swap",
]


def check_dim(dim: int, ndim: int, op: str, group: ProcessGroup, name: str = "dim") -> int:
    """Give `dim` counted from the front.

    Raises
    ------
    ShapeError
        If an array of `ndim` dims has no such dim.
    """
    if dim == 0 and ndim and type(dim) is int:
        return 0
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


def check_sizes(sizes: Sequence[int], name: str, op: str, group: ProcessGroup) -> tuple[int, ...]:
    """Give the extents that belong to each rank.

    Raises
    ------
    ShapeError
        If there is not one for each rank, or one is negative.
    DTypeError
        If they are not whole numbers.
    """
    held = getattr(sizes, "dtype", None)
    if held is not None and held.kind not in "iu":
        raise DTypeError(
            f"{group.where(op)}: {name} is {type(sizes).__name__} of {held}, wanted whole numbers. "
            f"PyTorch's functions that fill what is given first have other names here, or return it; see the "
            f"table in docs/how-to/from-pytorch.md."
        )
    extents = tuple(operator.index(size) for size in sizes)
    if len(extents) != group.size or min(extents) < 0:
        raise ShapeError(
            f"{group.where(op)}: {name}={list(extents)}; wanted {group.size} numbers, one for each rank, "
            f"none of them negative."
        )
    return extents


def check_share(
    shape: tuple[int, ...], dim: int, wanted: int, name: str, op: str, group: ProcessGroup
) -> None:
    """Raise unless the extent of `dim` is what the sizes say.

    Raises
    ------
    ShapeError
    """
    if shape[dim] != wanted:
        raise ShapeError(
            f"{group.where(op)}: dim {dim} of shape {list(shape)} has {shape[dim]} elements, but {name} says "
            f"{wanted}."
        )


def check_own_size(
    shape: tuple[int, ...], dim: int, sizes: Sequence[int], op: str, group: ProcessGroup
) -> tuple[int, ...] | None:
    """Give the extents of each rank's array, of which this rank's has `shape`; None if they are all equal.

    Raises
    ------
    ShapeError
    """
    extents, rank = check_sizes(sizes, "sizes", op, group), group.member(op)
    check_share(shape, dim, extents[rank], f"sizes[{rank}]", op, group)
    return extents if len(set(extents)) > 1 else None


def check_all_sizes(
    shape: tuple[int, ...], dim: int, sizes: Sequence[int], op: str, group: ProcessGroup
) -> tuple[int, ...] | None:
    """Give the extents of each rank's part of an array of `shape`; None if they are all equal.

    Raises
    ------
    ShapeError
    """
    extents = check_sizes(sizes, "sizes", op, group)
    check_share(shape, dim, sum(extents), "the sum of sizes", op, group)
    return extents if len(set(extents)) > 1 else None


def check_swap(
    shape: tuple[int, ...],
    split_dim: int,
    concat_dim: int,
    split_sizes: Sequence[int] | None,
    concat_sizes: Sequence[int] | None,
    group: ProcessGroup,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give the extents, in an `all_to_all`, of what goes to and what comes from each rank.

    Raises
    ------
    ShapeError
    """
    op, n = "all_to_all", group.size
    rank = group.member(op)
    along = None if split_sizes is None else check_sizes(split_sizes, "split_sizes", op, group)
    across = None if concat_sizes is None else check_sizes(concat_sizes, "concat_sizes", op, group)
    same = split_dim == concat_dim
    if same and along is not None and across is not None:
        raise ShapeError(
            f"{group.where(op)}: split_sizes and concat_sizes are given along one dim; use "
            f"all_to_all_single, which takes what this rank sends to each and gets from each."
        )
    if along is None:
        check_parts(shape, split_dim, op, group)
        along = (shape[split_dim] // n,) * n
    else:
        check_share(shape, split_dim, sum(along), "the sum of split_sizes", op, group)
    if across is None:
        return along, (along[rank] if same else shape[concat_dim],) * n
    if same:
        check_share(shape, concat_dim, n * across[rank], f"{n} * concat_sizes[{rank}]", op, group)
    else:
        check_share(shape, concat_dim, across[rank], f"concat_sizes[{rank}]", op, group)
    return along, across


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
    on_device: bool = False,
) -> None:
    """Raise unless the result fits into `out`, which is on a device where the input is.

    Raises
    ------
    ShapeError, DTypeError
    """
    if not (is_cuda_array(out) if on_device else isinstance(out, np.ndarray)):
        wanted = "on the device, as x is" if on_device else "a numpy.ndarray"
        got = "one on the host" if isinstance(out, np.ndarray) else type(out).__name__
        raise DTypeError(f"{where()}: out must be {wanted}, got {got}.")
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
    if not on_device and not out.flags.writeable:
        raise ShapeError(f"{where()}: out is read-only; give a writable array.")
