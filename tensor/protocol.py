"""NumPy's functions on tensors: which `Function` each of them is.

Formulas written with NumPy's names run on tensors through these tables; that is how the backward
of an op is itself recorded under ``create_graph``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.tensor.numpy_elementwise import ELEMENTWISE_FUNCTIONS, ELEMENTWISE_SPECIALS
from shardwise.tensor.numpy_linear import LINEAR_FUNCTIONS
from shardwise.tensor.numpy_reduction import REDUCTION_FUNCTIONS
from shardwise.tensor.ops import (
    index,
    joining,
    triangle,
    view,
)
from shardwise.tensor.ops.key import plain_index

__all__ = ["apply_function", "apply_special"]


def _moveaxis(a: Any, source: int, destination: int) -> Any:
    order = [d for d in range(a.ndim) if d != source % a.ndim]
    order.insert(destination % a.ndim, source % a.ndim)
    return a.permute(order)


def _expand_dims(a: Any, axis: int | tuple[int, ...]) -> Any:
    dims = (axis,) if isinstance(axis, int) else axis
    ndim = a.ndim + len(dims)
    sizes = iter(a.shape)
    new = {d % ndim for d in dims}
    return a.reshape([1 if d in new else next(sizes) for d in range(ndim)])


def _squeeze(a: Any, axis: int | tuple[int, ...] | None = None) -> Any:
    gone = (
        range(a.ndim) if axis is None else [d % a.ndim for d in ((axis,) if isinstance(axis, int) else axis)]
    )
    return a.reshape([n for d, n in enumerate(a.shape) if not (n == 1 and d in gone)])


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **ELEMENTWISE_FUNCTIONS,
    **LINEAR_FUNCTIONS,
    **REDUCTION_FUNCTIONS,
    np.reshape: lambda a, shape: a.reshape(shape),
    np.ravel: lambda a: a.reshape(-1),
    np.transpose: lambda a, axes=None: a.T if axes is None else a.permute(axes),
    np.swapaxes: lambda a, axis1, axis2: a.transpose(axis1, axis2),
    np.moveaxis: _moveaxis,
    np.expand_dims: _expand_dims,
    np.squeeze: _squeeze,
    np.broadcast_to: lambda a, shape: view.Expand.apply(a, shape=tuple(shape)),
    np.concatenate: lambda arrays, axis=0: joining.Cat.apply(*arrays, dim=axis),
    np.stack: lambda arrays, axis=0: joining.Stack.apply(*arrays, dim=axis),
    np.tril: lambda a, k=0: triangle.Tril.apply(a, k=k),
    np.triu: lambda a, k=0: triangle.Triu.apply(a, k=k),
    np.take: lambda a, indices, axis: _take(a, indices, axis),
    np.take_along_axis: lambda a, indices, axis: a.take_along_dim(indices, axis),
    np.zeros_like: lambda a, **rest: a.wrap(np.zeros_like(a.data, **rest)),
    np.ones_like: lambda a, **rest: a.wrap(np.ones_like(a.data, **rest)),
    np.full_like: lambda a, value, **rest: a.wrap(np.full_like(a.data, value, **rest)),
    np.empty_like: lambda a, **rest: a.wrap(np.empty_like(a.data, **rest)),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
}

CREATION = (np.arange, np.zeros, np.ones, np.full, np.empty, np.eye, np.tri)
"""Called with ``like=`` they make a constant on the same device."""

SPECIALS: dict[Any, Callable[..., Any]] = {
    **ELEMENTWISE_SPECIALS,
    special.scatter_add: lambda shape, key, g: index.Unindex.apply(
        g, shape=tuple(shape), index=plain_index(key)
    ),
}


def _take(a: Any, indices: Any, axis: int) -> Any:
    return a[(slice(None),) * (axis % a.ndim) + (indices,)]


def apply_function(like: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a NumPy function on tensors; NotImplemented for those without a `Function`.

    `like` is the tensor that was asked: functions that only make arrays make them of its kind.
    """
    if function in CREATION:
        return like.wrap(function(*args, **kwargs, like=like.data))
    call = FUNCTIONS.get(function)
    if kwargs.get("out", 0) is None:
        del kwargs["out"]
    return NotImplemented if call is None else call(*args, **kwargs)


def apply_special(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one of `shardwise.backend.special` on tensors."""
    return SPECIALS[function](*args, **kwargs)
