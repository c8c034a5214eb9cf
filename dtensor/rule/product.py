"""Products over dims that lie in parts, where their gradient is wanted."""

from __future__ import annotations

from typing import Any

from shardwise.dtensor.rule.block import blocks, unblocked
from shardwise.dtensor.rule.formula import settled
from shardwise.dtensor.rule.program import local_of, whole_of
from shardwise.tensor.dim import Dims, counted_dims
from shardwise.tensor.ops.reduce import Prod

__all__ = ["product"]


def product(a: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """The product of the parts' products: an all-gather of one number per result and rank, none backward."""
    a = settled(a)
    dims = counted_dims("prod", dim, a.ndim)
    part: Any = Prod.apply(local_of(a), dim=dims, keepdim=True)
    entry = blocks(a.layout, dims, (), part.dtype)
    all_parts = whole_of(part.reshape(1, *part.shape), entry).placed_as(unblocked(entry))
    out: Any = Prod.apply(all_parts, dim=0)
    return out if keepdim else out.reshape(tuple([n for d, n in enumerate(a.shape) if d not in dims]))
