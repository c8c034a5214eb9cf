"""`loss_parallel`: cross-entropy of logits whose classes lie over the ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shardwise.backend.errors import LayoutError
from shardwise.dtensor import DTensor, Shard
from shardwise.tensor import Function, intercept
from shardwise.tensor.ops import loss

__all__ = ["loss_parallel"]

_LOSSES = (loss.CrossEntropy, loss.WeightedCrossEntropy, loss.SoftCrossEntropy)


@contextmanager
def loss_parallel() -> Iterator[None]:
    """See to it that the cross-entropies in a ``with`` block are computed where the classes lie.

    Logits that are DTensors with their classes in parts are never gathered, in such a block or outside of it:
    the ranks put together their largest logit, their sums and the logit of the target. In the block, logits
    that lie otherwise are an error, so that a layer that gathers them does not go unnoticed.

    Raises
    ------
    LayoutError
        In the block, at a cross-entropy of logits that are no DTensor, or whose classes are not sharded.

    Notes
    -----
    Two all-reduces of one and two numbers per row in the forward, and none in the backward.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise.dtensor import Shard, distribute_tensor
    >>> from shardwise.nn import functional as F
    >>> mesh = sw.init_device_mesh("cpu", (1,))
    >>> logits = distribute_tensor(sw.zeros(2, 4), mesh, [Shard(1)])
    >>> target = distribute_tensor(sw.tensor([0, 3]), mesh)
    >>> with loss_parallel():
    ...     print(round(F.cross_entropy(logits, target).item(), 4))
    1.3863
    """
    with intercept(_checked):
        yield


def _checked(function: type[Function], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run an op, unless it is a cross-entropy of logits whose classes are not in parts."""
    if function in _LOSSES:
        logits = args[0]
        kinds = logits.placements if isinstance(logits, DTensor) else ()
        if not any(isinstance(p, Shard) and p.dim == logits.ndim - 1 for p in kinds):
            lying = f"lie as {logits.layout!r}" if isinstance(logits, DTensor) else "are no DTensor"
            raise LayoutError(
                f"loss_parallel: the classes of the logits are not sharded: logits of shape {logits.shape} "
                f"{lying}. Give the layer that makes them ColwiseParallel(use_local_output=False)"
            )
    return function.apply(*args, **params)
