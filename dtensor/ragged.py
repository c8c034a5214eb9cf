"""Methods of DTensors that give or even out ragged shards, and views that refuse to move data."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from shardwise.backend.errors import DTypeError, LayoutError
from shardwise.dtensor.dispatch import perform
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Shard
from shardwise.dtensor.rule.mask import masked, replica
from shardwise.dtensor.rule.regrouping import regrouped
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.tensor.size import full_shape, integers
from shardwise.tensor.tensor import Tensor

__all__ = ["Ragged"]


class Ragged(Tensor):
    """What `DTensor` does otherwise than `Tensor` where shapes depend on data, and in views."""

    data: Any

    def __getitem__(self, key: Any) -> Self:
        """Return what an index selects; see `Tensor`.

        Slices of sharded dims are ragged shards, and nothing is sent. So is what a mask chooses that is a
        DTensor: the mask is laid out as the tensor is, and the ranks tell each other how much they found.
        """
        mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        if _is_mask(mask):
            chosen: Self = masked(perform, self, mask)
            return chosen
        return super().__getitem__(key)

    def masked_select(self, mask: Any) -> Self:
        """Return the elements where `mask` is true, in one dim, as a ragged shard; the two broadcast."""
        if getattr(mask, "dtype", None) != np.bool_:
            raise DTypeError(
                f"masked_select: the mask must be booleans, not {getattr(mask, 'dtype', type(mask))}; "
                "compare first"
            )
        if not isinstance(getattr(mask, "data", None), ShardedArray):
            array = mask.data if isinstance(mask, Tensor) else np.asarray(mask)
            mask = replica(self.data.layout.mesh, array)
        shape = np.broadcast_shapes(self.shape, mask.shape)
        if not shape:
            return super().masked_select(mask)
        chosen: Self = masked(perform, self.expand(shape), mask.expand(shape))
        return chosen

    def rebalance(self) -> Self:
        """Return the same values with the pieces of sharded dims as even as the rule of `Shard` makes them.

        What boolean masks, `nonzero`, `unique` and slices give is ragged, and may lie on few ranks. Each rank
        sends to others what they lack; where all is even already nothing is sent.

        Examples
        --------
        >>> import numpy as np
        >>> import shardwise as sw
        >>> from shardwise.collectives import run_threads
        >>> from shardwise.dtensor import distribute_tensor
        >>> def show(rank):
        ...     mesh = sw.init_device_mesh("cpu", (2,))
        ...     x = distribute_tensor(sw.tensor(np.arange(6.0)), mesh, ["S(0)"])
        ...     large = x[x > 2.5]
        ...     return str(large.layout), str(large.rebalance().layout)
        >>> run_threads(show, 2)[0]
        ('S(0, [0, 3])', 'S(0)')
        """
        layout: Layout = self.data.layout
        even = tuple([Shard(p.dim) if isinstance(p, Shard) else p for p in layout.placements])
        target = Layout.of(layout.mesh, even, layout.order, layout.shape, layout.dtype)
        me: Any = self
        balanced: Self = me.placed_as(target, asked=True)
        return balanced

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Self:
        """Return a copy to which slices are added; see `Tensor`. Each rank adds what goes into its part."""
        layout: Layout = self.data.layout
        if not layout.ndim or not layout.order[dim % layout.ndim]:
            return super().index_add(dim, index, source, alpha=alpha)
        places, at = self._slices("index_add", dim, index)
        fitting = self._fitting("index_add", self, source, at, places)
        along = (-1, *(1,) * (layout.ndim - at - 1))
        if isinstance(places, Tensor):
            spread: Any = places.reshape(*along).expand(fitting.shape)
        else:
            spread = np.broadcast_to(np.reshape(places, along), fitting.shape)
        return self.scatter_add(at, spread, fitting * alpha if alpha != 1 else fitting)

    def view(self, *shape: Any) -> Self:
        """Return the elements in another shape, or their bits as another dtype; nothing is sent.

        Raises
        ------
        LayoutError
            The parts of this tensor are not parts of one of that shape. `reshape` moves what it must.
        """
        if len(shape) == 1 and isinstance(shape[0], (np.dtype, type)):
            return super().view(*shape)
        layout: Layout = self.data.layout
        wanted = full_shape("view", layout.shape, integers(shape))
        if layout.numel and any(layout.order):
            source, target = regrouped(layout, wanted)
            if source is not layout:
                raise LayoutError(_refusal(layout, source, target))
        return self._reshaped(wanted)


def _is_mask(key: Any) -> bool:
    return (
        isinstance(key, Tensor)
        and isinstance(key.data, ShardedArray)
        and key.dtype == np.bool_
        and key.ndim > 0
    )


def _refusal(layout: Layout, source: Layout, target: Layout) -> str:
    moved = [
        f"dim {dim} of size {layout.shape[dim]}, in pieces of "
        f"{[stop - start for start, stop in layout.ranges[dim]]},"
        for dim, axes in enumerate(layout.order)
        if axes and (axes, layout.ranges[dim]) != (source.order[dim], source.ranges[dim])
    ]
    return (
        f"view: {layout!r} cannot be seen in the shape {target.shape} where it lies: {' and '.join(moved)} "
        f"is not cut between whole parts of that shape. reshape() moves it to [{source}] first, whose result "
        f"is [{target}]; or redistribute it yourself"
    )
