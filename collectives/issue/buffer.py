"""The arrays that a transport reads and fills: the user's own where they will do, else copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, TypeVar

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.errors import DTypeError
from shardwise.backend.stream import address
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.check import check_output
from shardwise.collectives.layout import Stretch, concatenated, join, unpack

__all__ = ["fresh", "is_plain", "output", "output_flat", "output_rows", "plain_output", "readable"]

T = TypeVar("T")


_OBJECT_FORMS = ("all_gather", "gather", "broadcast", "send", "recv")


def is_plain(x: object) -> TypeGuard[Array]:
    """Say whether a transport reads `x` as it is: what nearly all calls give, so that it is asked first."""
    return type(x) is np.ndarray and x.flags.c_contiguous and x.dtype.isnative and not x.dtype.hasobject


def plain_output(out: Array | None, shape: Shape, x: Array) -> Array | None:
    """Give `out`, or a new array, for a transport to fill; None where that takes a longer look.

    Asked first, for plain arrays `x`: `output` and `output_rows` would find the same, and take as long as a
    small operation.
    """
    if out is None:
        return np.empty(shape, x.dtype)
    if out is x or type(out) is not np.ndarray or out.shape != shape or out.dtype is not x.dtype:
        return None
    flags = out.flags
    if not flags.c_contiguous or not flags.writeable:
        return None
    # Two arrays that own their memory are apart; asking NumPy takes longer.
    return out if (out.base is None and x.base is None) or not np.may_share_memory(out, x) else None


def readable(x: object, op: str, where: Callable[[], str]) -> Array:
    """Give `x` as a C-contiguous array of native byte order, without a copy where it is one.

    Raises
    ------
    DTypeError
        If it holds Python objects.
    """
    if is_plain(x):
        return x
    if is_cuda_array(x):
        return x if x.flags.c_contiguous else x.copy(order="C")
    array = np.asarray(x)
    if array.dtype.hasobject:
        form = op if op in _OBJECT_FORMS else "all_gather"
        raise DTypeError(
            f"{where()}: wanted an array of numbers, got {type(x).__name__} of dtype {array.dtype}; "
            f"use {form}_object for Python objects."
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else array.copy(order="C")


def fresh(shape: Shape, like: Array | None, dtype: np.dtype[Any] | None = None) -> Array:
    """Give a contiguous array on the device of `like` and of its dtype, whose values mean nothing yet."""
    if is_cuda_array(like):
        return np.empty_like(like, dtype, order="C", shape=shape)
    return np.empty(shape, like.dtype if dtype is None and like is not None else dtype)


def output(
    out: Array | None, shape: Shape, x: Array, op: str, group: ProcessGroup, wrap: Callable[[Array], T]
) -> tuple[Array, Callable[[], T]]:
    """Give a contiguous array for a transport to fill, and what makes the result of it.

    It is `out` itself where that will do: contiguous, and apart from `x` or exactly the place that an
    operation may overwrite, which is `x`, or this rank's row of it. `x` itself is given for the former.
    """
    if out is None:
        filled = np.empty(shape, x.dtype) if type(x) is np.ndarray else fresh(shape, x)
        return filled, lambda: wrap(filled)
    if out is x and out.shape == shape and _writeable(out):
        return out, lambda: wrap(out)
    plain = type(out) is type(x) is np.ndarray and out.shape == shape and out.dtype is x.dtype
    if not plain or not out.flags.writeable:
        check_output(out, shape, x.dtype, lambda: group.where(op), is_cuda_array(x))
    if out.flags.c_contiguous and out.dtype.isnative:
        # Two arrays that own their memory are apart, unless they are one; asking NumPy takes longer.
        if (out.base is None and x.base is None) or not np.may_share_memory(out, x):
            return out, lambda: wrap(out)
        if _same(out, x) and _writeable(x):
            return x, lambda: wrap(out)
        if x.ndim == out.ndim + 1 and group.rank is not None and _same(out, x[group.rank, ...]):
            return out, lambda: wrap(out)
    buffer = fresh(shape, x)
    return buffer, lambda: wrap(_copied(buffer, out))


def output_rows(
    out: Array | None, x: Array, dim: int, op: str, group: ProcessGroup, wrap: Callable[[Array], T]
) -> tuple[Array, Callable[[], T]]:
    """Give a contiguous array (n, ``*x.shape``) for a transport to fill, and what makes the result of it."""
    shape = (group.size, *x.shape)
    if out is None:
        if dim == 0 and type(x) is np.ndarray:
            whole = np.empty(concatenated(x.shape, group.size, 0), x.dtype)
            return whole.reshape(shape), lambda: wrap(whole)
        rows = fresh(shape, x)
        return rows, lambda: wrap(join(rows, dim))
    check_output(
        out, concatenated(x.shape, group.size, dim), x.dtype, lambda: group.where(op), is_cuda_array(x)
    )
    if dim == 0 and out.flags.c_contiguous and out.dtype.isnative:
        rows = out.reshape(shape)
        if (
            (out.base is None and x.base is None)
            or not np.may_share_memory(out, x)
            or (group.rank is not None and _same(x, rows[group.rank, ...]))
        ):
            return rows, lambda: wrap(out)
    buffer = fresh(shape, x)
    return buffer, lambda: wrap(_copied(join(buffer, dim), out))


def output_flat(
    out: Array | None,
    shape: Shape,
    sizes: Sequence[int],
    dim: int,
    x: Array,
    own: Stretch | None,
    op: str,
    group: ProcessGroup,
    wrap: Callable[[Array], T],
) -> tuple[Array, Callable[[], T]]:
    """Give a flat array for the parts of a result, `sizes` along `dim`, and what makes the result of it.

    It is the memory of `out` where that will do: parts along dim 0, and apart from `x`, but for the stretch
    `own` of it, which may be `x`.
    """
    length = math.prod(shape)
    if out is not None:
        check_output(out, shape, x.dtype, lambda: group.where(op), is_cuda_array(x))
        if dim == 0 and out.flags.c_contiguous and out.dtype.isnative:
            flat = out.reshape(-1)
            if not np.may_share_memory(out, x) or (own is not None and _same(x, flat[slice(*own)])):
                return flat, lambda: wrap(out)
    buffer = np.empty_like(x, shape=(length,))
    if out is None:
        return buffer, lambda: wrap(unpack(buffer, sizes, shape, dim))
    return buffer, lambda: wrap(_copied(unpack(buffer, sizes, shape, dim), out))


def _same(a: Array, b: Array) -> bool:
    """Say whether two contiguous arrays are the same memory."""
    return a.nbytes == b.nbytes and address(a) == address(b)


def _writeable(x: Array) -> bool:
    return is_cuda_array(x) or x.flags.writeable


def _copied(source: Array, out: Array) -> Array:
    np.copyto(out, source)
    return out
