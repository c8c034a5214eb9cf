"""What ranks outside of a mesh do in place of a program on parts: nothing, with the same layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.shape import ShapeArray
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.mode import current_mode
from shardwise.tensor.tape import Node, edges_of, record, record_many
from shardwise.tensor.tensor import Tensor

__all__ = ["is_outside", "nothing", "skipped", "skipped_gradients", "stand_in"]


def is_outside(layout: Layout) -> bool:
    """Tell whether this rank is not in the mesh of a layout."""
    return layout.mesh.get_coordinate() is None


def nothing(layout: Layout) -> Any:
    """Return a DTensor of which this rank holds nothing, off the tape."""
    wrap: Any = ShardedArray.tensor_class
    return wrap(ShardedArray(np.empty(0, layout.dtype), layout))


def skipped(inputs: Sequence[Any], *layouts: Layout) -> Any:
    """Return what a program gives on a rank outside: tensors of which it holds nothing.

    Parameters
    ----------
    inputs : sequence of DTensor
        As the program takes them; their gradients lie as they do, and are nothing, too.
    *layouts : Layout
        Of the results.
    """
    outs = tuple([nothing(layout) for layout in layouts])
    need = tuple([x.requires_grad for x in inputs])
    if current_mode().grad and any(need):
        node = Node(need)
        node.given = tuple([x.layout for x in inputs])
        if len(outs) == 1:
            record(node, _Skipped, tuple(inputs), outs[0])
        else:
            record_many(node, _Skipped, tuple(inputs), (), outs)
    return outs if len(outs) > 1 else outs[0]


class _Skipped(Function):
    """A program that this rank has no part in."""

    exact = True

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Gradients:
        if isinstance(grads[0], Tensor):
            return skipped_gradients(grads, ctx.need, ctx.given, ctx.places, ctx.given)
        made: list[Any] = [nothing(layout).data for layout in ctx.given]
        return made

    @staticmethod
    def recall(
        node: Node, saved: tuple[Any, ...], wrap: Callable[[Any], Any]
    ) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Under create_graph, tell the places of the inputs."""
        return {"places": edges_of(node)}, saved


def skipped_gradients(
    grads: Sequence[Any],
    need: Sequence[bool],
    inputs: Sequence[Layout | None],
    places: Sequence[Any],
    gradients: Sequence[Layout | None],
) -> list[Any]:
    """Return gradients that are nothing, but have gradients themselves, as they have inside of the mesh.

    Parameters
    ----------
    grads : sequence of DTensor
        What came in.
    need : sequence of bool
    inputs, gradients : sequence of Layout or None
        How the inputs and their gradients lie.
    places : sequence
        Where the inputs that the gradients depend on are on the tape; None for others.
    """
    depends: list[Any] = [g for g in grads if g.requires_grad]
    depends += [
        stand_in(layout, place)
        for layout, place, needed in zip(inputs, places, need, strict=True)
        if needed and place is not None and layout is not None
    ]
    asked = [layout for layout, needed in zip(gradients, need, strict=True) if needed and layout is not None]
    outs = skipped(depends, *asked)
    made = iter(outs if len(asked) > 1 else (outs,))
    return [
        next(made) if needed and layout is not None else None
        for layout, needed in zip(gradients, need, strict=True)
    ]


def stand_in(layout: Layout, place: Any) -> Any:
    """Return a tensor at a place of the tape, with a layout and no values."""
    target, index = place
    if type(target) is not Node:
        return target
    wrap: Any = ShardedArray.tensor_class
    empty: Any = ShapeArray((), layout.dtype)
    tensor = wrap(ShardedArray(empty, layout))
    tensor.requires_grad, tensor.node, tensor.index = True, target, index
    return tensor
