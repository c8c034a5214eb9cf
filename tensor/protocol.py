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
from shardwise.tensor.numpy_rearrangement import REARRANGEMENT_FUNCTIONS
from shardwise.tensor.numpy_reduction import REDUCTION_FUNCTIONS
from shardwise.tensor.ops import index
from shardwise.tensor.ops.key import plain_index

__all__ = ["apply_function", "apply_special"]


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **ELEMENTWISE_FUNCTIONS,
    **LINEAR_FUNCTIONS,
    **REDUCTION_FUNCTIONS,
    **REARRANGEMENT_FUNCTIONS,
}

CREATION = (np.arange, np.zeros, np.ones, np.full, np.empty, np.eye, np.tri)
"""Called with ``like=`` they make a constant on the same device."""

SPECIALS: dict[Any, Callable[..., Any]] = {
    **ELEMENTWISE_SPECIALS,
    special.scatter_add: lambda shape, key, g: index.Unindex.apply(
        g, shape=tuple(shape), index=plain_index(key)
    ),
}


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
