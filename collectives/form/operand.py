"""What a public function was given: arrays, or tensors that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError, DTypeError
from shardwise.tensor import Tensor, is_grad_enabled

__all__ = ["A", "as_array", "itself", "joined", "operands"]

A = TypeVar("A", Array, Tensor)

# NumPy's functions take Tensors, and give them, which their types do not say.
_asarray: Callable[..., Any] = np.asarray
_concatenate: Callable[..., Any] = np.concatenate


def operands(x: A | None, out: A | None, op: str) -> tuple[Array, Array | None, Callable[[Array], A]]:
    """Give the arrays of an operation that is not recorded, and what makes its result like them.

    Parameters
    ----------
    x, out : arrays or Tensors, or None
        The input, and where the result goes.
    op : str
        For messages.

    Returns
    -------
    array, array or None, callable

    Raises
    ------
    AutogradError
        If a gradient would be lost.
    DTypeError
        If one is a Tensor and the other an array.
    """
    source: Any = x
    target: Any = out
    if type(x) is np.ndarray and (out is None or type(out) is np.ndarray):
        return x, out, _as_it_is
    if not isinstance(x, Tensor) and not isinstance(out, Tensor):
        return source, target, _as_it_is
    for one in (source, target):
        if one is not None and not isinstance(one, Tensor):
            raise DTypeError(
                f"{op}: x and out must both be Tensors, or both arrays; one is {type(one).__name__}, "
                f"so give the .data of the other."
            )
        if one is not None and one.requires_grad and is_grad_enabled():
            raise AutogradError(
                f"{op}: out= and async_op=True are not recorded, and a tensor requires grad; leave them out, "
                f"or say no_grad() or x.detach()."
            )
    if source is not None:
        source = source.data
    if target is None:
        return source, None, _tensor

    def written(_: Array) -> Any:
        target.version.count += 1
        return target

    return source, target.data, written


def as_array(x: A) -> A:
    """Give a Tensor as it is, anything else as a NumPy array unless it is an array of some kind."""
    if hasattr(x, "shape") and hasattr(x, "reshape"):
        return x
    array: A = _asarray(x)
    return array


def joined(xs: Sequence[A]) -> A:
    """Lay the elements of several arrays, or Tensors, one after the other."""
    flat: A = _concatenate([x.reshape(-1) for x in xs])
    return flat


def itself(array: Array) -> Array:
    """Give the array: what makes the result of an operation on arrays."""
    return array


def _as_it_is(array: Any) -> Any:
    return array


def _tensor(array: Array) -> Any:
    return Tensor(array)
