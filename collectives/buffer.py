"""The arrays that a transport reads and fills: the user's own where they will do, else copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.errors import DeviceError, DTypeError
from shardwise.collectives.check import check_output
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.layout import concatenated, join

__all__ = ["output", "output_rows", "readable"]

T = TypeVar("T")


_OBJECT_FORMS = ("all_gather", "gather", "broadcast", "send", "recv")


def readable(x: object, op: str, where: Callable[[], str]) -> Array:
    """Give `x` as a C-contiguous array of native byte order, without a copy where it is one.

    Raises
    ------
    DTypeError
        If it holds Python objects.
    DeviceError
        If it is not on the host.
    """
    if type(x) is np.ndarray and x.flags.c_contiguous and x.dtype.isnative and not x.dtype.hasobject:
        return x
    if is_cuda_array(x):
        raise DeviceError(
            f"{where()}: wanted an array on the host, got one on a CUDA device; copy it first, "
            f"shardwise.backend.backend_of(x).to_host(x)."
        )
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


def output(
    out: Array | None, shape: Shape, x: Array, op: str, group: ProcessGroup, wrap: Callable[[Array], T]
) -> tuple[Array, Callable[[], T]]:
    """Give a contiguous array for a transport to fill, and what makes the result of it.

    It is `out` itself where that will do: contiguous, and apart from `x` or exactly the place that an
    operation may overwrite, which is `x`, or this rank's row of it. `x` itself is given for the former.
    """
    if out is None:
        fresh = np.empty(shape, x.dtype)
        return fresh, lambda: wrap(fresh)
    if out is x and out.shape == shape and out.flags.writeable:
        return out, lambda: wrap(out)
    plain = type(out) is np.ndarray and out.shape == shape and out.dtype is x.dtype
    if not plain or not out.flags.writeable:
        check_output(out, shape, x.dtype, lambda: group.where(op))
    if out.flags.c_contiguous and out.dtype.isnative:
        # Two arrays that own their memory are apart, unless they are one; asking NumPy takes longer.
        if (out.base is None and x.base is None) or not np.may_share_memory(out, x):
            return out, lambda: wrap(out)
        if _same(out, x) and x.flags.writeable:
            return x, lambda: wrap(out)
        if x.ndim == out.ndim + 1 and group.rank is not None and _same(out, x[group.rank, ...]):
            return out, lambda: wrap(out)
    buffer = np.empty(shape, x.dtype)
    return buffer, lambda: wrap(_copied(buffer, out))


def output_rows(
    out: Array | None, x: Array, dim: int, op: str, group: ProcessGroup, wrap: Callable[[Array], T]
) -> tuple[Array, Callable[[], T]]:
    """Give a contiguous array (n, ``*x.shape``) for a transport to fill, and what makes the result of it."""
    shape = (group.size, *x.shape)
    if out is None:
        fresh = np.empty(shape, x.dtype)
        return fresh, lambda: wrap(join(fresh, dim))
    check_output(out, concatenated(x.shape, group.size, dim), x.dtype, lambda: group.where(op))
    if dim == 0 and out.flags.c_contiguous and out.dtype.isnative:
        rows = out.reshape(shape)
        if not np.may_share_memory(out, x) or (group.rank is not None and _same(x, rows[group.rank, ...])):
            return rows, lambda: wrap(out)
    buffer = np.empty(shape, x.dtype)
    return buffer, lambda: wrap(_copied(join(buffer, dim), out))


def _same(a: Array, b: Array) -> bool:
    """Say whether two contiguous arrays are the same memory."""
    return a.nbytes == b.nbytes and a.ctypes.data == b.ctypes.data


def _copied(source: Array, out: Array) -> Array:
    np.copyto(out, source)
    return out
