"""Lengths, angles and distances of vectors along a dim."""

from __future__ import annotations

import numpy as np

from shardwise.backend.errors import ShapeError
from shardwise.nn.check import check_reals
from shardwise.tensor import Tensor

__all__ = ["cosine_similarity", "normalize", "pairwise_distance"]


def normalize(input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Tensor:
    """Return vectors divided by their p-norm along `dim`.

    Parameters
    ----------
    input : Tensor, any shape that has `dim`, real floating
    p : float
    dim : int or tuple of int
    eps : float
        Norms below it are taken for it.
    """
    check_reals("normalize", input=input)
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angles between vectors along `dim`.

    Parameters
    ----------
    x1, x2 : Tensor, real floating, of one dtype
        Broadcast with each other, also along `dim`.
    dim : int
        Of the shape that they broadcast to.
    eps : float
        Lengths below it are taken for it, so that the cosine with a zero vector is 0.

    Returns
    -------
    Tensor, the broadcast shape without `dim`
    """
    op = "cosine_similarity"
    check_reals(op, x1=x1, x2=x2)
    x1, x2 = _broadcast(op, x1, x2)
    lengths = [x.norm(2.0, dim, keepdim=True).clamp_min(eps) for x in (x1, x2)]
    return ((x1 / lengths[0]) * (x2 / lengths[1])).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return the p-norm of ``x1 - x2 + eps`` along the last dim.

    Parameters
    ----------
    x1, x2 : Tensor, shape (..., dim), real floating, of one dtype
        Broadcast with each other.
    p : float
    eps : float
        Keeps the gradient away from where the norm has none.
    keepdim : bool
        Keep the last dim, with size 1.
    """
    check_reals("pairwise_distance", x1=x1, x2=x2)
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def _broadcast(op: str, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    if x1.shape == x2.shape:
        return x1, x2
    try:
        shape = np.broadcast_shapes(x1.shape, x2.shape)
    except ValueError as error:
        raise ShapeError(f"{op}: x1 of shape {x1.shape} and x2 of {x2.shape} do not broadcast") from error
    return x1.expand(shape), x2.expand(shape)
