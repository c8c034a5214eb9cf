"""What a public function was given: arrays, or tensors that hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError, DTypeError
from shardwise.tensor import Tensor, is_grad_enabled

__all__ = ["A", "operands"]

A = TypeVar("A", Array, Tensor)


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
    if not isinstance(x, Tensor) and not isinstance(out, Tensor):
        return source, target, _itself
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


def _itself(array: Any) -> Any:
    return array


def _tensor(array: Array) -> Any:
    return Tensor(array)
