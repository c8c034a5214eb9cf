"""Regions: what ranks compute on their parts between two exchanges, as one op on the tape of all ranks.

All ranks must walk their tapes alike, because some steps of the walk are collectives. What a rank does with
its part may differ from what the others do with theirs (a part may be empty, or the first), so it is not on
that tape: a region keeps a tape of its own, of which others see that it has inputs and outputs in layouts.
Its gradients, of any order, exist on all ranks or on none, whatever path the values took on one of them:
where there is none here, they are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from shardwise.backend.errors import AutogradError
from shardwise.backend.shape import ShapeArray
from shardwise.dtensor.dual import cotangents_of, gradients_of
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.move import moved
from shardwise.dtensor.rule.skip import is_outside, nothing, stand_in
from shardwise.dtensor.sharded_array import ShardedArray, may_overlap
from shardwise.tensor.autograd import grad
from shardwise.tensor.engine import current_task
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.mode import current_mode
from shardwise.tensor.tape import Node, annotate, edges_of, record, record_many
from shardwise.tensor.tensor import Tensor

__all__ = ["Linear", "region"]

Linear: TypeAlias = Literal["", "all", "each"]


class _Inner(NamedTuple):
    """The tape of this rank's region: where gradients enter it, and where they come out."""

    leaves: tuple[Tensor | None, ...]
    outs: tuple[Tensor, ...]


def region(
    name: str,
    compute: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Layout],
    linear: Linear = "",
    addends: Sequence[int] = (),
) -> Any:
    """Return what `compute` makes of this rank's parts, as tensors that lie so.

    Parameters
    ----------
    name : str
        By which the tape knows it.
    compute : callable
        ``compute(*locals)``, tensors, returns a tensor or a tuple of them, parts of the outputs. What it
        takes from elsewhere is constant.
    inputs : sequence of DTensor
        Not partial but by sums. Ranks may use a replica each in its own way if no output is a replica there.
    outputs : sequence of Layout
        Their dtypes are what `compute` gives.
    linear : "", "all" or "each"
        In which inputs: then gradients do not depend on these.
    addends : sequence of int
        Inputs that are added on, as a bias is: on these no gradient depends.

    Returns
    -------
    DTensor, or tuple of them if there are several outputs
    """
    mode = current_mode()
    need = tuple([mode.grad and x.requires_grad for x in inputs])
    if is_outside(outputs[0]):
        outs = tuple([nothing(layout) for layout in outputs])
        inner = None
    else:
        leaves = tuple([_leaf(x, needed) for x, needed in zip(inputs, need, strict=True)])
        locals_ = [
            Tensor(x.data.local) if leaf is None else leaf for x, leaf in zip(inputs, leaves, strict=True)
        ]
        made = compute(*locals_)
        made = made if isinstance(made, tuple) else (made,)
        outs = tuple([_whole(each.data, layout) for each, layout in zip(made, outputs, strict=True)])
        inner = _Inner(leaves, tuple(map(_without_data, made)))
        if any(need) and mode.saver is None:
            _forget(inner)
    if any(need):
        _put_on_tape(name, inputs, need, inner, outs, linear, addends)
    return outs if len(outs) > 1 else outs[0]


def _leaf(x: Any, needed: bool) -> Tensor | None:
    """Return the start of an inner tape, over the part of a tensor; writes into that are seen."""
    if not needed:
        return None
    leaf = Tensor(x.data.local[...], True)
    leaf._version = x.version
    return leaf


def _whole(local: Any, layout: Layout) -> Any:
    wrap: Any = ShardedArray.tensor_class
    return wrap(ShardedArray(local, layout.with_dtype(local.dtype)))


def _without_data(out: Tensor) -> Tensor:
    """Return the end of an inner tape: what a gradient is asked of."""
    if out.requires_grad and out.node is None:  # an input, given back as it is
        return out
    empty: Any = ShapeArray(out.shape, out.dtype)
    end = Tensor(empty)
    end.requires_grad, end.node, end.index = out.requires_grad, out.node, out.index
    return end


def _forget(inner: _Inner) -> None:
    """Let go of parts that no op of an inner tape has saved: a leaf need only tell its shape.

    On the device memory is told apart less well, and parts stay as long as the tape does.
    """
    kept: list[Any] = []
    seen: set[Any] = set()
    stack = [out.node for out in inner.outs if out.node is not None]
    while stack:
        node = stack.pop()
        if node in seen or type(node) is not Node:
            continue
        seen.add(node)
        kept += [each for each in node.saved or () if hasattr(each, "dtype")]
        stack += [target for target in node._targets if target is not None]
    for leaf in inner.leaves:
        if (
            leaf is not None
            and isinstance(leaf.data, np.ndarray)
            and not any(may_overlap(each, leaf.data) for each in kept)
        ):
            empty: Any = ShapeArray(leaf.shape, leaf.dtype)
            leaf.data = empty


def _put_on_tape(
    name: str,
    inputs: Sequence[Any],
    need: tuple[bool, ...],
    inner: _Inner | None,
    outs: tuple[Any, ...],
    linear: Linear,
    addends: Sequence[int],
) -> None:
    node = Node(need)
    layouts = tuple([out.layout for out in outs])
    node.name, node.held, node.linear, node.addends = name, [inner], linear, addends
    node.inputs = tuple([x.layout for x in inputs])
    node.outputs = layouts
    node.cotangents = cotangents_of(layouts)
    node.gradients = gradients_of(node.inputs, layouts)
    if len(outs) == 1:
        record(node, _kind(name), tuple(inputs), outs[0])
    else:
        record_many(node, _kind(name), tuple(inputs), (), outs)
    # Something to unpack, also where the inner tape has saved nothing: a recomputation runs, collectives
    # included, when the first of its nodes is asked for what it saved, and that must be one on all ranks.
    node.saved, node._origins, node._versions = (None,), (None,), (None,)
    mode = current_mode()
    if mode.watched:
        annotate(node, mode)


class _Region(Function):
    """A region, as the tape knows it."""

    exact = True
    signature = "*"

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Gradients:
        if isinstance(grads[0], Tensor):
            return _gradient_region(ctx, grads)
        inner = _held(ctx)
        if inner is None:
            return [
                nothing(layout).data if needed else None
                for layout, needed in zip(ctx.gradients, ctx.need, strict=True)
            ]
        locals_ = [moved(each, wanted).local for each, wanted in zip(grads, ctx.cotangents, strict=True)]
        found = _pulled(inner, ctx.need, [Tensor(each) for each in locals_], False)
        task: Any = current_task()
        if task is not None and not (task.retain_graph or task.park is not None):
            ctx.held.clear()  # lets go of all that the inner tape has saved
        gradients: list[Any] = [
            None if each is None else ShardedArray(each.data, layout)
            for each, layout in zip(found, ctx.gradients, strict=True)
        ]
        return gradients

    @staticmethod
    def recall(
        node: Node, saved: tuple[Any, ...], wrap: Callable[[Any], Any]
    ) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Under create_graph the inner tape goes on: all that is needed beside it are the inputs' places."""
        return {"places": edges_of(node)}, saved


def _held(ctx: Context) -> _Inner | None:
    """Return the inner tape, None on a rank outside of the mesh."""
    if not ctx.held:
        raise AutogradError(
            f"cannot run backward through {ctx.name} again: its saved arrays were freed by the first "
            "backward. Pass retain_graph=True to the first call."
        )
    inner: _Inner | None = ctx.held[0]
    return inner


def _pulled(inner: _Inner, need: Sequence[bool], grads: Sequence[Tensor], create: bool) -> list[Any]:
    """Return the gradients of this rank's parts, zeros where nothing here depends on them."""
    leaves = [leaf for leaf, needed in zip(inner.leaves, need, strict=True) if needed]
    pairs = [(out, g) for out, g in zip(inner.outs, grads, strict=True) if out.requires_grad]
    found: Sequence[Any] = [None] * len(leaves)
    if pairs:
        ends, seeds = zip(*pairs, strict=True)
        # Nothing is freed on the way: regions of gradients walk the same tape.
        found = grad(ends, leaves, seeds, True, create, allow_unused=True)
    made = iter(
        [
            Tensor(np.zeros_like(grads[0].data, shape=leaf.shape, dtype=leaf.dtype))  # type: ignore[union-attr]
            if each is None
            else each
            for each, leaf in zip(found, leaves, strict=True)
        ]
    )
    return [next(made) if needed else None for needed in need]


def _gradient_region(ctx: Context, grads: Sequence[Any]) -> Gradients:
    """Return the gradients as a region of the inputs and the gradients that came in."""
    laid = [each.placed_as(wanted) for each, wanted in zip(grads, ctx.cotangents, strict=True)]
    stand_ins = [
        stand_in(layout, place) if needed else None
        for layout, place, needed in zip(ctx.inputs, ctx.places, ctx.need, strict=True)
    ]
    asked = [i for i, needed in enumerate(ctx.need) if needed]
    inputs = [x for x in stand_ins if x is not None] + laid
    factors = [i for i in asked if i not in ctx.addends]
    depends = [
        ctx.linear == "" or (ctx.linear == "each" and i in factors and any(other != i for other in factors))
        for i in asked
    ]
    need = (*depends, *[each.requires_grad for each in laid])
    layouts = [ctx.gradients[i] for i in asked]
    inner = _held(ctx)
    if inner is None:
        results = [nothing(layout) for layout in layouts]
        after = None
    else:
        seeds = [Tensor(each.data.local) for each in laid]
        for seed, each in zip(seeds, laid, strict=True):
            if each.requires_grad:
                seed.requires_grad, seed._version = True, each.version
        found = [each for each in _pulled(inner, ctx.need, seeds, True) if each is not None]
        results = [_whole(each.data, layout) for each, layout in zip(found, layouts, strict=True)]
        leaves = [inner.leaves[i] if d else None for i, d in zip(asked, depends, strict=True)]
        leaves += [seed if seed.requires_grad else None for seed in seeds]
        after = _Inner(tuple(leaves), tuple(map(_without_data, found)))
    if any(need):
        _put_on_tape(f"{ctx.name}Backward", inputs, need, after, tuple(results), ctx.linear, ())
    made = iter(results)
    return [next(made) if needed else None for needed in ctx.need]


_kinds: dict[str, type[_Region]] = {}


def _kind(name: str) -> type[_Region]:
    """Return the class by which the tape knows regions of a name."""
    found = _kinds.get(name)
    if found is None:
        found = _kinds[name] = type(name, (_Region,), {})
    return found
