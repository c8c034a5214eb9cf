"""`Step`: one move of a plan, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from shardwise.dtensor.layout import Layout

__all__ = ["Step", "StepOp"]

StepOp: TypeAlias = Literal[
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "exchange", "slice", "partition", "scale"
]
"""The first five communicate. An exchange sends boxes between any ranks; partition makes terms of values."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of layout in one operation of each rank.

    Attributes
    ----------
    op : str
    source, target : Layout
        Before and after it.
    axes : tuple of int
        The mesh axes along which it changes something, in the order of the group: the ranks that differ
        along these do it together. Empty where the meshes differ.
    dim : int or None
        The tensor dim along which it gathers or scatters; of an all-to-all, the one that becomes whole.
        None where it gathers along several.
    to_dim : int or None
        The tensor dim that an all-to-all cuts.
    reduce_op : str or None
        Of a reduction, and of what `partition` makes.
    divisor : int
        What a sum is divided by afterwards: of a mean along some axes only.
    bytes : int
        What a rank sends at least: the formula of the ledger for the largest piece; of an exchange, the mean.
    seconds : float
        Predicted.
    """

    op: StepOp
    source: Layout
    target: Layout
    axes: tuple[int, ...] = ()
    dim: int | None = None
    to_dim: int | None = None
    reduce_op: str | None = None
    divisor: int = 1
    bytes: int = 0
    seconds: float = 0.0

    @property
    def communicates(self) -> bool:
        """Whether anything is sent."""
        return self.op not in ("slice", "partition", "scale")

    def __str__(self) -> str:
        """Return the op, where it happens, what becomes what, and its price."""
        names = self.source.mesh.mesh_dim_names
        over = "x".join([names[axis] if names else str(axis) for axis in self.axes])
        where = f" over {over}" if over else " between meshes" if self.op == "exchange" else ""
        what = f"{self.op}{where}: {self.source} -> {self.target}"
        if not self.communicates:
            return f"{what}, free"
        return f"{what}, {self.bytes} bytes, {1e6 * self.seconds:.1f} us"
