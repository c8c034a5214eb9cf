"""Gated units."""

from __future__ import annotations

from shardwise.backend.errors import ShapeError
from shardwise.nn.check import check_reals
from shardwise.tensor import Tensor
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.ops import gate

__all__ = ["glu", "swiglu"]


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return ``a * sigmoid(b)``, with `a` and `b` the halves of `input` along `dim` (Dauphin et al. 2017).

    Parameters
    ----------
    input : Tensor, at least one dim, real floating
    dim : int
        Of an even size.

    Returns
    -------
    Tensor, shape of `input` with half of `dim`

    Raises
    ------
    ShapeError
        If the size of `dim` is odd, or there is no such dim.
    """
    check_reals("glu", input=input)
    return gate.Glu.apply(input, dim=_even("glu", input, dim))


def swiglu(input: Tensor, other: Tensor | None = None) -> Tensor:
    """Return ``silu(a) * b`` (Shazeer 2020).

    Parameters
    ----------
    input : Tensor, shape (..., 2 * dim), real floating
        `a` is the first half of the last dim and `b` the second. Or, with `other`, all of `a`.
    other : Tensor, shape of `input`, optional
        `b`, where the two come from two products.

    Returns
    -------
    Tensor, shape (..., dim), or that of `other`

    Raises
    ------
    ShapeError
        If the last dim is odd, or the two shapes differ.
    """
    check_reals("swiglu", input=input, other=other)
    if other is None:
        _even("swiglu", input, -1)
        return gate.Swiglu.apply(input)
    if input.shape != other.shape:
        raise ShapeError(f"swiglu: input of shape {input.shape} and other of shape {other.shape} must agree")
    return gate.SiluGate.apply(input, other)


def _even(op: str, input: Tensor, dim: int) -> int:
    if not input.ndim:
        raise ShapeError(f"{op}: input needs at least one dim to halve, but its shape is ()")
    place = counted_dim(op, dim, input.ndim)
    if input.shape[place] % 2:
        raise ShapeError(f"{op}: dim {dim} must have an even size to be halved; input has {input.shape}")
    return place
