"""Ranks outside of a mesh: they hold nothing of its tensors, and skip what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.errors import DataDependentShapeError, LayoutError
from shardwise.collectives import rank
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.rule.skip import skipped_gradients
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.dtensor.strategy import Strategy
from shardwise.mesh import DeviceMesh
from shardwise.tensor.function import Function, Gradients
from shardwise.tensor.tape import Node, edges_of, record, record_many
from shardwise.tensor.tensor import Tensor

__all__ = ["is_outside", "nothing", "outside", "refuse_outside"]


def is_outside(strategy: Strategy) -> bool:
    """Tell whether this rank is not in the mesh of an op."""
    layout = strategy.inputs[strategy.lead]
    return layout is not None and layout.mesh.get_coordinate() is None


def refuse_outside(name: str, mesh: DeviceMesh) -> None:
    """Raise on ranks outside of a mesh, which have no values that could be given."""
    if mesh.get_coordinate() is None:
        raise LayoutError(
            f"{name}: rank {rank()} is not in {mesh!r} and has no values of this tensor; ask on its ranks "
            "only, as in `if mesh.get_coordinate() is not None:`, or redistribute() to a mesh with this rank"
        )


def nothing(layout: Layout) -> ShardedArray:
    """Return what a rank outside holds of a tensor."""
    return ShardedArray(np.empty(0, layout.dtype), layout)


class Outside(Function):
    """An op that this rank skips: its gradients are nothing, too."""

    exact = True

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Gradients:
        strategy: Strategy = ctx._strategy
        if isinstance(grads[0], Tensor):
            places = ctx.places if strategy.function.linear != "all" else [None] * len(ctx.need)
            return skipped_gradients(grads, ctx.need, strategy.inputs, places, strategy.gradients)
        made: list[Any] = [None if layout is None else nothing(layout) for layout in strategy.gradients]
        return made

    @staticmethod
    def recall(
        node: Node, saved: tuple[Any, ...], wrap: Callable[[Any], Any]
    ) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Under create_graph, tell the places of the inputs."""
        return {"places": edges_of(node)}, saved


def outside(strategy: Strategy, args: tuple[Any, ...], tracked: bool) -> Any:
    """Return what an op gives on a rank outside of the mesh: tensors of which it holds nothing."""
    if strategy.outputs is None:
        raise DataDependentShapeError(
            f"{strategy.function.__name__}: the shape depends on values, and rank {rank()} is not in the "
            "mesh and has none; call it on the ranks of the mesh only"
        )
    outs = tuple([ShardedArray.tensor_class(nothing(layout)) for layout in strategy.outputs])
    if tracked:
        node = Node(tuple([isinstance(arg, Tensor) and arg.requires_grad for arg in args]))
        node._strategy = strategy
        if len(outs) == 1:
            record(node, Outside, args, outs[0])
        else:
            record_many(node, Outside, args, (), outs)
    return outs if strategy.many else outs[0]
