"""Dims as the caller counts them: from the front, or from the end by negative numbers."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from shardwise.backend.errors import ShapeError

__all__ = ["Dims", "counted_dim", "counted_dims"]

Dims = int | Sequence[int] | None
"""One dim, several, or all of them."""


def counted_dim(op: str, dim: int, ndim: int) -> int:
    """Return `dim` counted from the front.

    Parameters
    ----------
    op : str
        For the message.
    dim : int
    ndim : int
        Number of dims; a tensor without dims is taken to have one, as in PyTorch.

    Raises
    ------
    ShapeError
        There is no such dim.
    """
    ndim, place = max(ndim, 1), operator.index(dim)
    if not -ndim <= place < ndim:
        raise ShapeError(
            f"{op}: there is no dim {dim} among {ndim}; wanted a number from {-ndim} to {ndim - 1}"
        )
    return place % ndim


def counted_dims(op: str, dim: Dims, ndim: int) -> tuple[int, ...]:
    """Return the dims that a reduction names, counted from the front; None stands for all.

    Parameters
    ----------
    op : str
        For the message.
    dim : int, sequence of int or None
    ndim : int
        Number of dims. A tensor without dims has none to give, whatever was asked of it.

    Raises
    ------
    ShapeError
        There is no such dim, or it is named twice.
    """
    if dim is None:
        return tuple(range(ndim))
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim % ndim,)
    given = tuple(dim) if isinstance(dim, Sequence) else (dim,)
    dims = tuple([counted_dim(op, d, ndim) for d in given])
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{op}: a dim is named twice in {given}, of {ndim} dims; name each once")
    return dims if ndim else ()
