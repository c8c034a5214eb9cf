"""Dropout, whose masks do not depend on the number of ranks."""

from __future__ import annotations

from shardwise.backend.errors import ArgumentError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.tensor import Tensor, next_draw
from shardwise.tensor.ops import dropout as op

__all__ = ["check_probability", "dropout"]


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero each element with probability `p` and scale the others by ``1 / (1 - p)``.

    The mask depends on the seed, the calling module's path and the element's place in the global
    batch, not on the number of ranks (see `shardwise.tensor.random`).

    Parameters
    ----------
    x : Tensor, any shape, floating
        The first dim is the batch, or the batch merged with the dims behind it.
    p : float
    training : bool
        If not, `x` is returned as it is.
    """
    check_probability("dropout", "p", p)
    check_tensors("dropout", x=x)
    check_dtypes("dropout", x=x)
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    draw = next_draw()
    return op.Dropout.apply(x, p=float(p), seed=draw.seed, stream=draw.stream, offset=draw.offset(x.shape))


def check_probability(op: str, name: str, p: float) -> None:
    """Raise ArgumentError unless `p` is between 0 and 1."""
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{op}: {name} must be a probability between 0 and 1, got {p}")
