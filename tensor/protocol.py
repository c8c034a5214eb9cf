"""NumPy's functions on tensors: which `Function` each of them is.

Formulas written with NumPy's names run on tensors through these tables; that is how the backward
of an op is itself recorded under ``create_graph``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.errors import DTypeError
from shardwise.backend.select import backend_of
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.numpy_composition import COMPOSED_FUNCTIONS
from shardwise.tensor.numpy_elementwise import ELEMENTWISE_FUNCTIONS, ELEMENTWISE_SPECIALS
from shardwise.tensor.numpy_linear import LINEAR_FUNCTIONS
from shardwise.tensor.numpy_option import refuse
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
    **COMPOSED_FUNCTIONS,
}

CREATION = (np.arange, np.zeros, np.ones, np.full, np.empty, np.eye, np.tri)
"""Called with ``like=`` they make a constant on the same device."""

READERS = (
    np.array2string, np.array_equiv, np.array_repr, np.array_str, np.can_cast, np.common_type, np.einsum_path,
    np.may_share_memory, np.min_scalar_type, np.result_type, np.save, np.savetxt, np.savez,
    np.savez_compressed, np.shares_memory,
)  # fmt: skip
"""Called with the arrays: they only look at them."""

SPECIALS: dict[Any, Callable[..., Any]] = {
    **ELEMENTWISE_SPECIALS,
    special.scatter_add: lambda shape, key, g: index.Unindex.apply(
        g, shape=tuple(shape), index=plain_index(key)
    ),
}


def apply_function(like: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a NumPy function on tensors.

    `like` is the tensor that was asked: functions that only make arrays make them of its kind.

    Raises
    ------
    DTypeError
        The function does not take tensors.
    ArgumentError
        It was given an array to write its result into.
    """
    if function in CREATION:
        return like.wrap(function(*args, **kwargs, like=like.data))
    call = FUNCTIONS.get(function)
    if call is not None:
        out = kwargs.pop("out", None) if kwargs else None
        if out is not None:
            refuse(f"{function.__module__}.{function.__name__}".removeprefix("numpy."), {"out": out})
        return call(*args, **kwargs)
    if function in READERS:
        return function(*_read(args), **_read(kwargs))
    raise DTypeError(
        f"{function.__module__}.{function.__name__} does not take tensors: give it x.detach().numpy(), whose "
        "result has no gradient, or write it with functions that do"
    )


def _read(value: Any) -> Any:
    """Return arguments with the arrays of the tensors among them."""
    if isinstance(value, Carrier):
        return backend_of(value.data).to_host(value.data)
    if isinstance(value, dict):
        return {name: _read(each) for name, each in value.items()}
    return type(value)(map(_read, value)) if type(value) in (tuple, list) else value


def apply_special(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one of `shardwise.backend.special` on tensors."""
    return SPECIALS[function](*args, **kwargs)
