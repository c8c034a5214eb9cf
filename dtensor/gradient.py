"""Gradients of ops on sharded tensors: the dual-layout rule at work.

A change of layout is the identity, so a gradient may travel in any layout and is converted only where an op
needs it otherwise. The op that ran on parts goes back on the same parts: with the gradients of its outputs as
its `Strategy` says, its formula gives those of its inputs in the layouts that the strategy says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.kernels.pointwise.casting import cast
from shardwise.backend.shape import ShapeArray
from shardwise.dtensor.move import moved
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.dtensor.strategy import Strategy
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.tape import Node, edges_of

__all__ = ["Spread", "spread"]


class Spread(Function):
    """An op that ran on parts, as the tape knows it."""

    local: type[Function]

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Gradients:
        strategy: Strategy = ctx._strategy
        if not isinstance(grads[0], ShardedArray):  # under create_graph: the formula itself, on DTensors
            return strategy.function.backward(ctx, *grads)
        cotangents = strategy.cotangents or ctx._cotangents
        locals_ = [
            grad.local if grad.layout is wanted else moved(grad, wanted).local
            for grad, wanted in zip(grads, cotangents, strict=True)
        ]
        results: Any = strategy.function.backward(ctx, *locals_)
        if type(results) is not tuple and not isinstance(results, list):
            results = (results,)
        shapes = ctx._shapes if strategy.broadcasts else None
        gradients: list[Any] = []
        for i, (result, layout) in enumerate(zip(results, strategy.gradients, strict=True)):
            if result is None or layout is None:
                gradients.append(None)
                continue
            if type(result) is not np.ndarray or result.dtype is not layout.dtype or shapes is not None:
                result = _fit(result, None if shapes is None else shapes[i], layout.dtype)
            gradients.append(ShardedArray(result, layout))
        return gradients

    @staticmethod
    def recall(
        node: Node, saved: tuple[Any, ...], wrap: Callable[[Any], Any]
    ) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Return what the formula needs to run on whole tensors, for gradients of gradients.

        The attributes of the context come from a run without data, since those of the real one tell of parts.

        Returns
        -------
        attributes : dict
        saved : tuple of DTensor or None
        """
        strategy: Strategy = node._strategy
        given = getattr(node, "_given", strategy.inputs)
        wholes: list[Any] = [
            arg if layout is None else ShapeArray(layout.shape, layout.dtype)
            for arg, layout in zip(given, strategy.inputs, strict=True)
        ]
        ctx = Context(node.need)
        result = strategy.function.forward(ctx, *wholes, **getattr(node, "_params", {}))
        results = result if type(result) is tuple else (result,)
        held = dict(zip(node._origins, saved, strict=True))
        tensors: list[Any] = []
        for each in ctx.saved:
            origin = _origin(each, wholes, results)
            part = held.get(origin) if origin is not None else None
            if each is None or part is None:
                tensors.append(each if origin is None and not hasattr(each, "dtype") else None)
                continue
            assert origin is not None
            layout: Any = strategy.inputs[origin] if origin >= 0 else (strategy.outputs or ())[-1 - origin]
            tensors.append(_placed(node, origin, ShardedArray(part, layout), wrap))
        return {**ctx.__dict__, "_strategy": strategy}, tuple(tensors)


def _origin(array: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int | None:
    for i, each in enumerate(inputs):
        if each is array:
            return i
    for i, each in enumerate(outputs):
        if each is array:
            return -1 - i
    return None


def _placed(node: Node, origin: int, array: ShardedArray, wrap: Callable[[Any], Any]) -> Any:
    """Return a saved array as a tensor at its place on the tape."""
    if origin < 0:
        tensor = wrap(array)
        tensor.requires_grad, tensor.node, tensor.index = True, node, -1 - origin
        return tensor
    edge = edges_of(node)[origin]
    if edge is None:
        return wrap(array)
    if type(edge[0]) is not Node:
        return edge[0]
    tensor = wrap(array)
    tensor.requires_grad, (tensor.node, tensor.index) = True, edge
    return tensor


def _fit(grad: Any, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    """Return a part's gradient in the shape and dtype of the part; None for a shape that cannot differ."""
    if isinstance(grad, np.generic):
        grad = np.asarray(grad)
    if shape is not None and grad.shape != shape:
        grad = unbroadcast(grad, shape)
    if grad.dtype is not dtype and grad.dtype != dtype:
        grad = grad.real if grad.dtype.kind == "c" and dtype.kind != "c" else grad
        with np.errstate(over="ignore"):
            grad = cast(grad, dtype)
    return grad


_spread: dict[type[Function], type[Spread]] = {}


def spread(function: type[Function]) -> type[Spread]:
    """Return the class by which the tape knows `function` on parts; it has the function's name."""
    found = _spread.get(function)
    if found is None:
        attributes = {
            "local": function,
            "broadcasts": function.broadcasts,
            "exact": True,
            "signature": function.signature,
        }
        found = _spread[function] = type(function.__name__, (Spread,), attributes)
    return found
