"""Writing along a sharded dim: each rank writes what goes into its part, and keeps it.

What is written lies on every rank, or as its part of the result does; nothing of the tensor itself is sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Placement, Replicate
from shardwise.dtensor.rule.case import Case
from shardwise.dtensor.rule.lookup import among
from shardwise.dtensor.strategy import Strategy
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops import gather, scatter_reduce, take
from shardwise.tensor.ops.bound import check_index
from shardwise.tensor.signature import Part

__all__ = ["scatter_rule"]


class _Into(Function):
    """An op that writes along a dim by an index, on a part of that dim.

    What belongs to other parts goes into one place more at the end, which is dropped.
    """

    broadcasts = True
    whole: type[Function]

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        dim = params["dim"] % len(inputs[0].whole)
        return {**params, "at": (inputs[0].offset[dim], inputs[0].whole[dim])}


def _into_part(function: type[Function], name: str) -> type[Function]:
    def forward(
        ctx: Context, a: Array, index: Array, source: Any, dim: int, at: Any = None, **params: Any
    ) -> Any:
        ctx.at = at
        if at is None:
            return function.forward(ctx, a, index, source, dim=dim, **params)
        dim = dim % a.ndim
        check_index(name, index, at[1], dim)
        here, places = among(index, at[0], a.shape[dim], at[1])
        ctx.part_dim, ctx.length = dim, a.shape[dim]
        inner = ctx.inner = Context(ctx.need)
        longer = _longer(a, dim)
        given = np.where(here, places, a.shape[dim])
        out = function.forward(inner, longer, given, source, dim=dim, **params)
        result = np.ascontiguousarray(_shorter(out, dim, a.shape[dim]))
        known = {id(longer): a, id(given): index, id(source): source, id(out): result}
        ctx.saved = tuple([None if each is None else known.get(id(each)) for each in inner.saved])
        return result

    def backward(ctx: Context, g: Any) -> Gradients:
        if ctx.at is None:
            return function.backward(ctx, g)
        inner = ctx.inner
        inner.need = ctx.need
        da, _, *rest = function.backward(inner, _longer(g, ctx.part_dim))
        return (None if da is None else _shorter(da, ctx.part_dim, ctx.length), None, *rest)

    attributes = {
        "__doc__": function.__doc__,
        "signature": function.signature,
        "exact": function.exact,
        "linear": function.linear,
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
    }
    return type(function.__name__, (_Into,), attributes)


def _longer(a: Array, dim: int) -> Array:
    one = (*a.shape[:dim], 1, *a.shape[dim + 1 :])
    return np.concatenate((a, np.zeros_like(a, shape=one)), axis=dim)


def _shorter(a: Array, dim: int, length: int) -> Array:
    return a[(*(slice(None),) * dim, slice(0, length))]


_PARTS = {
    gather.Scatter: _into_part(gather.Scatter, "scatter"),
    gather.ScatterAdd: _into_part(gather.ScatterAdd, "scatter_add"),
    scatter_reduce.ScatterReduce: _into_part(scatter_reduce.ScatterReduce, "scatter_reduce"),
    take.IndexCopy: _into_part(take.IndexCopy, "index_copy"),
}


def scatter_rule(case: Case) -> Strategy | None:
    """Let each part take what the index names in it."""
    base, places = case.first, case.layouts[1]
    dim = case.params["dim"] % max(base.ndim, 1)
    if places is None or not base.ndim or not base.order[dim]:
        return None
    case.results()
    base = base.reduced()
    copying = case.function is take.IndexCopy
    if not copying and any(
        axes and d != dim and base.shape[d] != places.shape[d] for d, axes in enumerate(base.order)
    ):
        return None
    index_layout = places.replicated() if copying else _along(base, places, dim)
    source = case.layouts[2]
    if source is not None and source.ndim:
        if any(
            axes and d != dim and source.shape[d] != base.shape[d]
            for d, axes in enumerate(base.order)
            if source.ndim == base.ndim
        ):
            source = source.replicated() if copying else source
        else:
            source = _along(base, source, dim)
    elif source is not None:
        source = source.replicated()
    return case.strategy([base, index_layout, source], [base], _PARTS[case.function])


def _along(base: Layout, other: Layout, dim: int) -> Layout:
    """Return the layout of what is written: cut as the tensor is, but for the dim written along."""
    kinds: list[Placement] = [Replicate()] * base.mesh.ndim
    order = []
    for d, axes in enumerate(base.order):
        order.append(() if d == dim else axes)
        for axis in order[-1]:
            kinds[axis] = base.placements[axis]
    return Layout.of(base.mesh, tuple(kinds), tuple(order), other.shape, other.dtype)
