"""Products over dims that lie in parts, where their gradient is wanted."""

from __future__ import annotations

from typing import Any

from shardwise.dtensor.rule.block import blocks, unblocked
from shardwise.dtensor.rule.formula import settled
from shardwise.dtensor.rule.region import region
from shardwise.tensor.dim import Dims, counted_dims
from shardwise.tensor.ops.reduce import Prod
from shardwise.tensor.ops.scan import integer_total

__all__ = ["product"]


def product(a: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """The product of the parts' products: an all-gather of one number per result and rank, none backward."""
    a = settled(a)
    dims = counted_dims("prod", dim, a.ndim)
    entry = blocks(a.layout, dims, (), integer_total(a.dtype) or a.dtype)

    def within(local: Any) -> Any:
        part: Any = Prod.apply(local, dim=dims, keepdim=True)
        return part.reshape(1, *part.shape)

    all_parts = region("Prod", within, [a], [entry]).placed_as(unblocked(entry))
    result: Any = Prod.apply(all_parts, dim=0)
    return result if keepdim else result.reshape(_left(a, dims))


def _left(a: Any, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([n for d, n in enumerate(a.shape) if d not in dims])
