"""The dual-layout rule: how gradients lie where an op ran on tensors that lie so."""

from __future__ import annotations

from collections.abc import Sequence

from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, Replicate

__all__ = ["cotangents_of", "gradients_of"]


def cotangents_of(outputs: Sequence[Layout]) -> tuple[Layout, ...]:
    """Return what the gradient of each output must be: Partial becomes Replicate."""
    return tuple([layout.reduced() for layout in outputs])


def gradients_of(
    inputs: Sequence[Layout | None], outputs: Sequence[Layout] | None
) -> tuple[Layout | None, ...]:
    """Return what the gradient of each input comes out as.

    On an axis where an input is a replica and an output is not, the ranks' gradients are terms of a sum.
    """
    gradients: list[Layout | None] = []
    for layout in inputs:
        if layout is None:
            gradients.append(None)
            continue
        kinds = list(layout.placements)
        for axis, placement in enumerate(kinds):
            if isinstance(placement, Partial):
                kinds[axis] = Replicate()
            elif isinstance(placement, Replicate) and not all(
                isinstance(out.placements[axis], Replicate) for out in outputs or ()
            ):
                kinds[axis] = Partial("sum")
        gradients.append(Layout.of(layout.mesh, tuple(kinds), layout.order, layout.shape, layout.dtype))
    return tuple(gradients)
