"""Ops along one dim, of tensors that may have none."""

from __future__ import annotations

from typing import Any

from shardwise.tensor.dim import counted_dim
from shardwise.tensor.function import Function
from shardwise.tensor.methods.result import ValuesIndices
from shardwise.tensor.ops.view import Reshape

__all__ = ["along", "choose_along"]


def along(function: type[Function], x: Any, op: str, dim: int, **params: object) -> Any:
    """Apply an op that works along one dim. A tensor without dims is taken to have one, as in PyTorch.

    Parameters
    ----------
    function : Function class
    x : Tensor
    op : str
        What the caller knows it by, for messages.
    dim : int
    **params
        Of the op.
    """
    ndim = x.data.ndim
    dim = counted_dim(op, dim, ndim)
    if ndim:
        return function.apply(x, dim=dim, **params)
    result = function.apply(Reshape.apply(x, shape=(1,)), dim=dim, **params)
    if isinstance(result, tuple):
        return tuple([_alone(part) for part in result])
    return _alone(result)


def choose_along(function: type[Function], x: Any, op: str, dim: int, **params: object) -> ValuesIndices[Any]:
    """Apply an op that gives values and indices; see `along`."""
    values, indices = along(function, x, op, dim, **params)
    return ValuesIndices(values, indices)


def _alone(x: Any) -> Any:
    return Reshape.apply(x, shape=()) if x.data.size == 1 else x
