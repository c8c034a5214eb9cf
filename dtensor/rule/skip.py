"""What ranks outside of a mesh do in place of a program on parts: nothing, with the same layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.dtensor.layout import Layout
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.mode import current_mode
from shardwise.tensor.tape import Node, record, record_many
from shardwise.tensor.tensor import Tensor

__all__ = ["is_outside", "nothing", "skipped"]


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
        made = [nothing(layout) for layout in ctx.given]
        return made if isinstance(grads[0], Tensor) else [each.data for each in made]
