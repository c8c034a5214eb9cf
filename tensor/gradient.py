"""One gradient between two ops: its shape and dtype, whose array it is, what it is computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.errors import AnomalyError, AutogradError
from shardwise.backend.kernels.pointwise.casting import cast
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context
from shardwise.tensor.mode import current_mode
from shardwise.tensor.tape import Node, edges_of

__all__ = ["conformed", "fill_unused", "is_owned", "saved_tensors"]


def conformed(node: Node, i: int, grad: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the gradient for input `i` in the shape and dtype of that input."""
    if isinstance(grad, np.generic):
        grad = np.asarray(grad)
    if grad.shape != shape:
        if not (node._function.broadcasts and _broadcasts(shape, grad.shape)):
            raise AutogradError(
                f"backward of {node} returned a gradient of shape {grad.shape} for input {i} of shape {shape}"
            )
        grad = unbroadcast(grad, shape)
    if grad.dtype != dtype:
        grad = grad.real if grad.dtype.kind == "c" and dtype.kind != "c" else grad
        with np.errstate(over="ignore"):  # beyond the range of a narrow dtype lies infinity
            grad = cast(grad, dtype)
    if current_mode().anomaly and bool(np.any(np.isnan(_values(grad)))):
        raise AnomalyError(f"backward of {node} gave NaN in the gradient of its input {i}")
    return grad


def _values(grad: Any) -> Any:
    """Return the array of a gradient: of a tensor, or this rank's part of one that is spread over ranks."""
    array = grad.data if hasattr(grad, "node") else grad
    return getattr(array, "local", array)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Tell whether an array of `shape` broadcasts to the shape `to`."""
    tail = to[len(to) - len(shape) :]
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(shape, tail, strict=True))


def fill_unused(node: Node, grads: list[Any]) -> None:
    """Put zeros for outputs that nobody used."""
    like = next(grad for grad in grads if grad is not None)
    for index, (shape, dtype) in enumerate(((node._shape, node._dtype), *node._more)):
        if grads[index] is None:
            grads[index] = np.zeros_like(like, shape=shape, dtype=dtype)


def is_owned(
    grad: Any, i: int, results: Sequence[Any], grads: Sequence[Any], saved: tuple[Any, ...], ctx: Context
) -> bool:
    """Tell whether the gradient for input `i` is an array that nothing but the engine holds."""
    if getattr(grad, "base", grad) is not None or grad is ctx.into[i]:
        return False
    return not (
        any(grad is other for other in (*grads, *saved))
        or any(grad is other for at, other in enumerate(results) if at != i)
        or any(grad is kept for kept in ctx.__dict__.values())
    )


def saved_tensors(node: Node, saved: tuple[Any, ...], wrap: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return saved inputs and outputs as tensors on the tape, statistics as None."""
    tensors: list[Any] = []
    edges = edges_of(node)
    for array, origin in zip(saved, node._origins, strict=True):
        if array is None or origin is None:
            tensors.append(None)
            continue
        if not hasattr(array, "dtype"):  # a Python scalar
            tensors.append(array)
            continue
        if origin < 0:
            tensor = wrap(array)
            if array.dtype.kind in "fcV":  # places and the like have no gradients
                tensor.requires_grad, tensor.node, tensor.index = True, node, -1 - origin
        elif (edge := edges[origin]) is None:
            tensor = wrap(array)
        elif type(edge[0]) is Node:
            tensor = wrap(array)
            tensor.requires_grad, (tensor.node, tensor.index) = True, edge
        else:
            tensor = edge[0]
        tensors.append(tensor)
    return tuple(tensors)
