"""Dims as the caller counts them: from the front, or from the end by negative numbers."""

from __future__ import annotations

import operator

from shardwise.backend.errors import ShapeError

__all__ = ["counted_dim"]


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
