"""Ops that talk inside: made of ops on sharded tensors forward, and by their own formula backward.

The forward of such an op is a function of a context and DTensors, run off the tape. It does what the op's own
forward does, and saves what that saves. The backward is the op's own formula, which runs on DTensors as it
does on any tensors; only there it gets its communication from the layouts. So one formula gives the gradient,
and the gradient's gradient, whatever dims are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from shardwise.backend.kind import is_narrow
from shardwise.dtensor.placement import Partial
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.mode import current_mode, override
from shardwise.tensor.tape import Node, annotate, record, record_many, trace_saved
from shardwise.tensor.tensor import Tensor

__all__ = ["by_formula", "settled"]

Forward: TypeAlias = Callable[..., Any]


def by_formula(
    function: type[Function], forward: Forward, backward: Callable[..., Gradients] | None = None
) -> Callable[..., Any]:
    """Return a composition that stands for an op.

    Parameters
    ----------
    function : Function class
    forward : callable
        ``forward(ctx, *args, **params)`` with DTensors for arrays; returns one, or a tuple of them. None is
        partial but by sums.
    backward : callable, optional
        ``backward(ctx, *grads)`` on tensors, where the op's own would gather something.
    """
    kind = type(
        function.__name__,
        (_Formula,),
        {"formula": staticmethod(backward or function.backward), "signature": function.signature},
    )

    def composed(*args: Any, **params: Any) -> Any:
        return _run(kind, forward, args, params)

    composed.__name__ = f"composed_{function.__name__}"
    return composed


def settled(x: Any) -> Any:
    """Return a DTensor without partial axes, for use in several places: each would reduce it anew."""
    return x.placed_as(x.layout.reduced()) if x.layout.partial else x


class _Formula(Function):
    """An op whose backward is a formula on DTensors."""

    exact = True
    formula: Callable[..., Gradients]

    @classmethod
    def backward(cls, ctx: Context, *grads: Any) -> Gradients:
        if isinstance(grads[0], Tensor):  # under create_graph: on the tape
            return cls.formula(ctx, *grads)
        wrap: Any = ShardedArray.tensor_class
        inner = Context(ctx.need)
        inner.__dict__.update(ctx.__dict__)
        inner.saved = tuple([_wide(wrap(each)) if _is_sharded(each) else each for each in ctx.saved])
        with override(grad=False):
            results = cls.formula(inner, *[_wide(wrap(grad)) for grad in grads])
            return [
                None if result is None or like is None else _fitted(result, *like).data
                for result, like in zip(results, ctx.given, strict=True)
            ]


def _fitted(gradient: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a gradient in the shape and dtype of its input, and as nothing but a sum where it is partial."""
    if gradient.shape != shape:
        gradient = unbroadcast(gradient, shape)
    if gradient.dtype.kind == "c" and dtype.kind != "c":
        gradient = gradient.real
    if gradient.dtype != dtype:
        gradient = gradient.astype(dtype)
    return _summed(gradient)


def _run(kind: type[_Formula], forward: Forward, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    mode = current_mode()
    need = tuple([mode.grad and isinstance(arg, Tensor) and arg.requires_grad for arg in args])
    ctx = Context(need)
    with override(grad=False):
        wide = [_wide(arg.detach()) if isinstance(arg, Tensor) else arg for arg in args]
        result = forward(ctx, *wide, **params)
        many = isinstance(result, tuple)
        results = result if many else (result,)
        narrow = {arg.dtype for arg in args if isinstance(arg, Tensor) and arg.dtype.kind in "fcV"}
        back = narrow.pop() if len(narrow) == 1 else None
        rounded = back is not None and is_narrow(back)
        outs = tuple(
            [each.astype(back) if rounded and each.dtype == np.float32 else each for each in results]
        )
    if any(need):
        _record(kind, ctx, args, wide, results, outs)
    return outs if many else outs[0]


def _record(
    kind: type[_Formula],
    ctx: Context,
    args: tuple[Any, ...],
    wide: list[Any],
    results: tuple[Any, ...],
    outs: tuple[Any, ...],
) -> None:
    """Put an op on the tape, with what its forward saved."""
    node = Node(ctx.need)
    node.__dict__.update(ctx.__dict__)
    node.given = tuple([(arg.shape, arg.dtype) if isinstance(arg, Tensor) else None for arg in args])
    known = {id(w): arg.data for w, arg in zip(wide, args, strict=True) if isinstance(w, Tensor)}
    known.update({id(result): out.data for result, out in zip(results, outs, strict=True)})
    saved = [known.get(id(each), getattr(each, "data", None)) for each in ctx.saved]
    arrays = [arg.data if isinstance(arg, Tensor) else None for arg in args]
    if len(outs) == 1:
        record(node, kind, args, outs[0])
    else:
        record_many(node, kind, args, arrays, outs)
    node.saved = tuple(saved)
    if saved:
        trace_saved(node, args, arrays, outs)
    if current_mode().watched:
        annotate(node, current_mode())


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if is_narrow(x.dtype) else x


def _is_sharded(x: Any) -> bool:
    return type(x) is ShardedArray


def _summed(x: Any) -> Any:
    """Return a DTensor that is partial by sums at most: no other kind exists where gradients are taken."""
    if all(not isinstance(p, Partial) or p.reduce_op == "sum" for p in x.layout.placements):
        return x
    return settled(x)
