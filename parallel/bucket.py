"""Which gradients travel together: the plan is data, made without communication."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, CollectiveMismatchError
from shardwise.collectives import ProcessGroup, empty_symmetric, shares_memory

__all__ = ["Bucket", "BucketPlan", "Slot", "bucket_memory", "plan_buckets"]

_logger = logging.getLogger(__name__)

_ALIGN = 64  # bytes: a cache line, so that no two gradients share one


@dataclass(frozen=True, slots=True)
class Slot:
    """One parameter's place in a bucket: elements ``start : start + size``."""

    index: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """One flat array of gradients of one dtype, all-reduced at once."""

    dtype: np.dtype[Any]
    size: int
    slots: tuple[Slot, ...]


def plan_buckets(
    sizes: Sequence[int], dtypes: Sequence[np.dtype[Any]], cap_bytes: int, first_cap_bytes: int | None = None
) -> tuple[BucketPlan, ...]:
    """Put parameters into buckets, last parameter first, since its gradient comes first.

    Parameters
    ----------
    sizes : sequence of int
        Elements per parameter, in the order of the forward.
    dtypes : sequence of dtype
    cap_bytes : int
        A bucket is closed as soon as it holds this much, so it may end with a larger parameter.
    first_cap_bytes : int, optional
        For the first bucket of each dtype: a small one starts to travel early.

    Returns
    -------
    tuple of BucketPlan
        In the order in which they become full; every parameter in exactly one slot.
    """
    done: list[tuple[int, BucketPlan]] = []
    open_: dict[np.dtype[Any], tuple[list[Slot], int]] = {}
    closed: set[np.dtype[Any]] = set()
    for index in reversed(range(len(sizes))):
        dtype = dtypes[index]
        slots, end = open_.pop(dtype, ([], 0))
        slots.append(Slot(index, end, sizes[index]))
        lanes = max(1, _ALIGN // dtype.itemsize)
        end += -(-sizes[index] // lanes) * lanes
        cap = cap_bytes if first_cap_bytes is None or dtype in closed else first_cap_bytes
        if end * dtype.itemsize >= cap:
            done.append((index, BucketPlan(dtype, end, tuple(slots))))
            closed.add(dtype)
        else:
            open_[dtype] = (slots, end)
    for dtype, (slots, end) in open_.items():
        done.append((slots[-1].index, BucketPlan(dtype, end, tuple(slots))))
    # full when the earliest parameter of the forward has its gradient
    return tuple(plan for _, plan in sorted(done, key=lambda item: -item[0]))


def bucket_memory(plans: Sequence[BucketPlan], like: Sequence[Array], group: ProcessGroup) -> list[Array]:
    """Give the flat array of each bucket, zeros: all in one piece of symmetric memory where that can be.

    There a bucket is reduced where it lies, which takes half the time and less. All ranks of the group call
    it; where one of them has not enough shared memory, none uses it.

    Parameters
    ----------
    plans : sequence of BucketPlan
    like : sequence of array
        Of the kind that each bucket shall be.
    group : ProcessGroup
    """
    begins = [0]
    for plan in plans:
        nbytes = plan.size * plan.dtype.itemsize
        begins.append(begins[-1] + -(-nbytes // _ALIGN) * _ALIGN)
    if group.size > 1 and all(type(array) is np.ndarray for array in like) and shares_memory(group):
        try:
            arena = empty_symmetric(begins[-1], np.uint8, group)
        except CollectiveMismatchError:
            raise
        except CollectiveError as error:  # the same on all ranks
            _logger.warning("gradients lie in ordinary memory, and are averaged more slowly: %s", error)
        else:
            return [
                arena[begin : begin + plan.size * plan.dtype.itemsize].view(plan.dtype)
                for begin, plan in zip(begins, plans, strict=False)
            ]
    return [np.zeros_like(array, shape=(plan.size,)) for array, plan in zip(like, plans, strict=True)]


class Bucket:
    """A plan with its memory, and what is still missing in this backward."""

    def __init__(self, plan: BucketPlan, flat: Array) -> None:
        self.plan = plan
        self.flat = flat
        self.missing: set[int] = set()
        self.reset()

    def reset(self) -> None:
        """Wait for all gradients again."""
        self.missing = {slot.index for slot in self.plan.slots}

    def view(self, slot: Slot, shape: tuple[int, ...]) -> Array:
        """Return the part of the flat array that belongs to a slot."""
        return self.flat[slot.start : slot.start + slot.size].reshape(shape)
