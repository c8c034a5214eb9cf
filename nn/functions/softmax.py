"""Softmax and its relatives."""

from __future__ import annotations

import numpy as np

from shardwise.backend import random as bits
from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.nn.check import check_reals, check_tensors
from shardwise.tensor import Tensor, next_draw
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.part import in_parts
from shardwise.tensor.signature import Part

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]

_SMALLEST = 2.0**-54  # half a step of a uniform float64: keeps log away from 0


def softmax(input: Tensor, dim: int = -1, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return exponentials that sum to one along `dim`.

    Parameters
    ----------
    input : Tensor, any shape, real floating (any real, if `dtype` is given)
    dim : int
        PyTorch asks for it; here it is the last one if not given.
    dtype : dtype, optional
        Cast to it first, for a sum that float16 could not hold.
    """
    return _cast("softmax", input, dtype).softmax(dim)


def log_softmax(input: Tensor, dim: int = -1, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the logarithm of the `softmax` along `dim`, without its underflow."""
    return _cast("log_softmax", input, dtype).log_softmax(dim)


def softmin(input: Tensor, dim: int = -1, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the `softmax` of ``-input`` along `dim`."""
    return (-_cast("softmin", input, dtype)).softmax(dim)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Return samples that are nearly one-hot, differentiably (Jang et al. 2016).

    Parameters
    ----------
    logits : Tensor, any shape, real floating
        Log-probabilities along `dim`, up to a constant.
    tau : float
        The temperature; above 0.
    hard : bool
        Return one-hot vectors, with the gradient of the soft samples.
    eps : float
        Not used; PyTorch keeps it, too.
    dim : int

    Returns
    -------
    Tensor, of the shape and dtype of `logits`

    Notes
    -----
    The noise depends on an element's place in the global batch, as for `dropout`.
    """
    check_reals("gumbel_softmax", logits=logits)
    if not tau > 0:
        raise ArgumentError(f"gumbel_softmax: tau must be above 0, got {tau}")
    draw, dtype = next_draw(), logits.dtype

    def make(part: Part, local: Array) -> Array:
        place = draw.place(part)
        uniform = bits.uniform(part.shape, np.float64, draw.seed, draw.stream, place, like=local)
        gumbel: Array = -np.log(-np.log(np.maximum(uniform, _SMALLEST)))
        return gumbel.astype(dtype)

    soft: Tensor = ((logits + in_parts(logits, make)) * (1.0 / tau)).softmax(dim)
    if not hard or not soft.ndim:
        return soft
    place = counted_dim("gumbel_softmax", dim, soft.ndim)
    places = np.arange(soft.shape[place], like=soft.data)
    places = np.reshape(places, (-1, *(1,) * (soft.ndim - 1 - place)))
    chosen = np.equal(places, np.argmax(soft.data, axis=place, keepdims=True))
    one_hot: Tensor = soft.wrap(chosen.astype(soft.dtype))
    return one_hot - soft.detach() + soft


def _cast(op: str, input: Tensor, dtype: DTypeLike | None) -> Tensor:
    if dtype is None:
        check_reals(op, input=input)
        return input
    check_tensors(op, input=input)
    cast = input.astype(dtype)
    check_reals(op, input=cast)
    return cast
