"""Gradients of ops on sharded tensors: the dual-layout rule at work.

A change of layout is the identity, so a gradient may travel in any layout and is converted only where an op
needs it otherwise. The op that ran on parts goes back on the same parts: with the gradients of its outputs as
its `Strategy` says, its formula gives those of its inputs in the layouts that the strategy says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.errors import AutogradError
from shardwise.backend.kernels.pointwise.casting import cast
from shardwise.backend.shape import ShapeArray
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.move import moved
from shardwise.dtensor.policy import implicit_replication
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.dtensor.strategy import Strategy
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.narrow import backward_wide
from shardwise.tensor.tape import Node, edges_of

__all__ = ["Spread", "spread"]


class Spread(Function):
    """An op that ran on parts, as the tape knows it."""

    local: type[Function]

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Gradients:
        strategy: Strategy = ctx._strategy
        if not isinstance(grads[0], ShardedArray):  # under create_graph: the formula itself, on DTensors
            with implicit_replication():  # of the constants in formulas
                return strategy.function.backward(ctx, *grads)
        cotangents = strategy.cotangents or ctx._cotangents
        locals_ = [
            grad.local if grad.layout is wanted else moved(grad, wanted).local
            for grad, wanted in zip(grads, cotangents, strict=True)
        ]
        if grads[0].itemsize == 2:  # the engine gave a context that may be changed, as it does for plain ones
            locals_, ctx.saved = backward_wide(strategy.function, locals_, ctx.saved)
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
        if all(layout is None or layout.is_replicated for layout in strategy.inputs):
            return _whole(node, saved, wrap)
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
        for i, each in enumerate(ctx.saved):
            origin = _origin(each, wholes, results)
            if not hasattr(each, "dtype") or origin is None:  # a number, nothing, or a statistic
                tensors.append(None if hasattr(each, "dtype") else each)
                continue
            # One array that was given twice was found under its first place.
            part = saved[i] if len(saved) == len(ctx.saved) else held.get(origin)
            layouts = strategy.inputs if origin >= 0 else strategy.outputs or node._cotangents
            layout: Any = layouts[origin if origin >= 0 else -1 - origin]
            tensors.append(None if part is None else _placed(node, origin, ShardedArray(part, layout), wrap))
        for name, value in ctx.__dict__.items():
            if isinstance(value, ShapeArray):
                ctx.__dict__[name] = _recovered(node, name, value, wholes)
        return {**ctx.__dict__, "_strategy": strategy}, tuple(tensors)


def _whole(
    node: Node, saved: tuple[Any, ...], wrap: Callable[[Any], Any]
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Do what `Spread.recall` does for an op that ran on replicas, whose context tells of the whole."""
    strategy: Strategy = node._strategy
    outputs = strategy.outputs or node._cotangents
    tensors: list[Any] = []
    for part, origin in zip(saved, node._origins, strict=True):
        if part is None or origin is None or not hasattr(part, "dtype"):
            tensors.append(None if hasattr(part, "dtype") else part)
            continue
        layout: Any = strategy.inputs[origin] if origin >= 0 else outputs[-1 - origin]
        tensors.append(_placed(node, origin, ShardedArray(part, layout), wrap))
    return {}, tuple(tensors)


def _recovered(node: Node, name: str, whole: ShapeArray, inputs: Sequence[Any]) -> ShardedArray:
    """Return an array that an op left on its context as one of the layouts that it ran with.

    Raises
    ------
    AutogradError
        Its shape is that of no input or output.
    """
    strategy: Strategy = node._strategy
    part = getattr(node, name)
    origin = _origin(whole, inputs, ())
    given: Any = None if origin is None else strategy.inputs[origin]
    if given is not None:
        return ShardedArray(part, given)
    for layout in (*strategy.inputs, *(strategy.outputs or ())):
        if layout is not None and layout.shape == whole.shape and not layout.partial:
            return ShardedArray(part, layout.with_dtype(part.dtype))
    if part.shape == whole.shape and strategy.outputs is not None:
        mesh = strategy.outputs[0].mesh
        return ShardedArray(part, Layout(mesh, ("R",) * mesh.ndim, part.shape, part.dtype))
    raise AutogradError(
        f"create_graph through {node} on parts: it keeps ctx.{name} of shape {whole.shape}, which lies like "
        "none of its inputs or outputs; let it ctx.save() that, or compute it again in backward"
    )


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
        if array.dtype.kind in "fcV":  # places and the like have no gradients
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
