"""Collectives on lists of arrays that need not have one shape.

Ranks tell each other the shapes first, so no rank must know what the others have. Tensors are recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.collectives.context import entered_group
from shardwise.collectives.form.object_form import all_gather_object, all_to_all_object
from shardwise.collectives.form.operand import A, as_array, joined
from shardwise.collectives.form.personal import all_to_all_single
from shardwise.collectives.form.symmetric import all_gather
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.layout import stretches
from shardwise.tensor import Tensor

__all__ = ["all_gather_list", "all_to_all_list"]


def all_gather_list(x: A, group: ProcessGroup | None = None) -> list[A]:
    """Give every rank's `x` to every rank, whatever their shapes.

    Parameters
    ----------
    x : array or Tensor, any shape, the same dtype on all ranks
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    list of arrays or Tensors
        One for each rank, in the order of the group; the same on all ranks.

    Raises
    ------
    DTypeError
        On all ranks, if they disagree on the dtype.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    A small message with the shapes goes ahead.
    """
    group = entered_group(group, "all_gather_list")
    array = as_array(x)
    told = all_gather_object((array.shape, _native(array)), group)
    shapes = [shape for shape, _ in told]
    if len({dtype for _, dtype in told}) > 1:
        raise DTypeError(
            f"{group.where('all_gather_list')}: ranks {list(group.ranks)} have dtypes "
            f"{[str(dtype) for _, dtype in told]}; convert them to one."
        )
    sizes = [math.prod(shape) for shape in shapes]
    flat = all_gather(array.reshape(-1), group, sizes=sizes)
    return [flat[slice(*part)].reshape(shape) for part, shape in zip(stretches(sizes), shapes, strict=True)]


def all_to_all_list(xs: Sequence[A], group: ProcessGroup | None = None) -> list[A]:
    """Give array i of this rank's list to rank i of the group, and get one from each, whatever their shapes.

    Parameters
    ----------
    xs : sequence of arrays or Tensors
        One for each rank of the group, of any shapes; the same dtype on all ranks.
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    list of arrays or Tensors
        One from each rank, in the order of the group.

    Raises
    ------
    ShapeError
        If there is not one array for each rank.
    DTypeError
        If they have several dtypes, on this rank or on others.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    A small message with the shapes goes ahead.
    """
    group = entered_group(group, "all_to_all_list")
    where = group.where("all_to_all_list")
    if len(xs) != group.size:
        raise ShapeError(
            f"{where}: got {len(xs)} arrays; wanted {group.size}, one for each rank of the group."
        )
    arrays = [as_array(x) for x in xs]
    told = all_to_all_object([(array.shape, _native(array)) for array in arrays], group)
    dtypes = {_native(array) for array in arrays} | {dtype for _, dtype in told}
    if len(dtypes) > 1:
        raise DTypeError(f"{where}: got arrays of dtypes {sorted(map(str, dtypes))}; convert them to one.")
    shapes = [shape for shape, _ in told]
    sizes = [math.prod(shape) for shape in shapes]
    flat = all_to_all_single(
        joined(arrays),
        sizes,
        [math.prod(array.shape) for array in arrays],
        group,
    )
    return [flat[slice(*part)].reshape(shape) for part, shape in zip(stretches(sizes), shapes, strict=True)]


def _native(x: Array | Tensor) -> np.dtype[Any]:
    """Give the dtype in which `x` is sent: of this machine's byte order."""
    return x.dtype.newbyteorder("=")
