"""What a rule is asked: an op, how its inputs lie, and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from shardwise.backend.array import Shape
from shardwise.backend.shape import ShapeArray
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard
from shardwise.dtensor.strategy import Strategy, finished, inferred
from shardwise.tensor.function import Function

__all__ = ["Case", "Perform", "Play", "Rule", "carried", "lengths", "without"]

Perform: TypeAlias = Callable[[Strategy, tuple[Any, ...], dict[str, Any]], Any]
"""Runs a strategy on arguments, through the door: what it gives has gradients."""

Play: TypeAlias = Callable[[Perform, tuple[Any, ...], dict[str, Any]], Any]
"""Makes an op of others, of those of a rank and of exchanges between ranks."""


@dataclass(frozen=True, slots=True)
class Case:
    """One op on inputs that lie in some layouts.

    Attributes
    ----------
    function : Function class
    args : tuple
        The inputs; only the types and numbers of those that are no tensors may be looked at.
    layouts : sequence of Layout or None
        Those of the tensors.
    params : mapping
    tracked : bool
        Whether a gradient is recorded, under which the only partial results are sums.
    """

    function: type[Function]
    args: tuple[Any, ...]
    layouts: Sequence[Layout | None]
    params: Mapping[str, Any]
    tracked: bool

    @property
    def first(self) -> Layout:
        """How the first input lies."""
        layout = self.layouts[0]
        assert layout is not None
        return layout

    def results(self, function: type[Function] | None = None) -> tuple[tuple[Any, ...], bool]:
        """Return the results as arrays without data, and whether they are several; errors are the op's."""
        wholes = [
            arg if layout is None else ShapeArray(layout.shape, layout.dtype)
            for arg, layout in zip(self.args, self.layouts, strict=True)
        ]
        found = inferred(function or self.function, wholes, dict(self.params))
        assert found is not None
        return found

    def moving(self, layout: Layout) -> Layout:
        """Return a layout with what may not pass through an op that only moves elements made whole.

        Such an op may run on the terms of any reduction; under grad there are only sums.
        """
        kept = [
            placement
            if not (isinstance(placement, Partial) and self.tracked and placement.reduce_op != "sum")
            else Replicate()
            for placement in layout.placements
        ]
        return Layout.of(layout.mesh, tuple(kept), layout.order, layout.shape, layout.dtype)

    def strategy(
        self,
        inputs: Sequence[Layout | None],
        outputs: Sequence[Layout],
        function: type[Function] | None = None,
        many: bool = False,
    ) -> Strategy:
        """Return the strategy that runs an op on inputs that lie so, with results that lie so."""
        return finished(function or self.function, tuple(inputs), self.layouts, tuple(outputs), many)


Rule: TypeAlias = Callable[[Case], Strategy | Play | None]
"""Tells how an op runs in some layouts, from these alone; None where the letters of its signature tell."""


def lengths(layout: Layout, dim: int) -> tuple[int, ...]:
    """Return how long each piece of a dim is, in the order of the pieces."""
    return tuple([stop - start for start, stop in layout.ranges[dim]])


def carried(
    layout: Layout,
    shape: Shape,
    origin: Sequence[int | None],
    sizes: Mapping[int, Sequence[int]] | None = None,
    dtype: Any = None,
) -> Layout:
    """Return the layout of a result whose dims are cut where those are that they come from.

    Parameters
    ----------
    layout : Layout
        Of what it is made from.
    shape : tuple of int
        Of the result.
    origin : sequence of (int or None)
        Per dim of the result the dim that it comes from, if any. Dims that are left out must not be cut.
    sizes : mapping of int to sequence of int, optional
        Per dim of the result how long the pieces are; where not told, as they were if the dim is as long as
        it was, and else even.
    """
    kinds: list[Placement] = [
        Replicate() if isinstance(placement, Shard) else placement for placement in layout.placements
    ]
    order: list[tuple[int, ...]] = []
    for dim, source in enumerate(origin):
        axes = () if source is None else layout.order[source]
        order.append(axes)
        for axis in axes:
            given: tuple[int, ...] | None = None
            if sizes is not None and dim in sizes:
                given = tuple(sizes[dim])
            elif source is not None and shape[dim] == layout.shape[source]:
                before = layout.placements[axis]
                given = before.sizes if isinstance(before, Shard) else None
            kinds[axis] = Shard(dim, given)
    return Layout.of(layout.mesh, tuple(kinds), tuple(order), tuple(shape), dtype or layout.dtype)


def without(layout: Layout, dims: Sequence[int] = (), axes: Sequence[int] = ()) -> Layout:
    """Return a layout with some dims whole, and replicas along some axes."""
    gone = {*axes, *[axis for dim in dims for axis in layout.order[dim]]}
    kinds = tuple([Replicate() if i in gone else p for i, p in enumerate(layout.placements)])
    order = tuple([tuple([axis for axis in each if axis not in gone]) for each in layout.order])
    if any(isinstance(p, Shard) and p.sizes is not None for p in kinds):  # sizes tell of all axes of a dim
        full = layout.order
        kinds = tuple(
            [Shard(p.dim) if isinstance(p, Shard) and order[p.dim] != full[p.dim] else p for p in kinds]
        )
    return Layout.of(layout.mesh, kinds, order, layout.shape, layout.dtype)
