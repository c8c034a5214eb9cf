"""Gradients averaged over a group while backward is still running."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.collectives import ProcessGroup, Work, all_reduce, implicit
from shardwise.dtensor import DTensor
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.parallel.bucket import Bucket, BucketPlan, Slot, bucket_memory
from shardwise.parallel.replica import part_of
from shardwise.tensor import GraphTask, Tensor, current_task

__all__ = ["Reducer"]


class Reducer:
    """Watches leaves: a bucket whose gradients are all there is all-reduced in the background.

    Buckets are launched in their order, so that all ranks issue the same sequence, and a backward
    ends when all have arrived. A leaf belongs to one reducer; a newer one takes it over.

    Parameters
    ----------
    names : sequence of str
        Of the leaves, for messages.
    leaves : sequence of Tensor
    plans : sequence of BucketPlan
        Over the leaves.
    group : ProcessGroup
    views : bool
        Let ``grad`` be a view into the bucket; otherwise gradients are copied in and out.
    find_unused : bool
        Accept leaves that get no gradient.

    Attributes
    ----------
    sync : bool
        Whether the next backward averages; if not, gradients add up locally.
    released : bool
        Whether another reducer has taken a leaf over, so that this one is of no use any more.
    """

    def __init__(
        self,
        names: Sequence[str],
        leaves: Sequence[Tensor],
        plans: Sequence[BucketPlan],
        group: ProcessGroup,
        views: bool,
        find_unused: bool,
    ) -> None:
        self.sync = True
        self.released = False
        self._names = names
        self._leaves = leaves
        self._group = group
        self._views = views
        self._find_unused = find_unused
        self.buckets: list[Bucket] = []
        self._place: dict[int, tuple[Bucket, Slot]] = {}
        self._task: GraphTask | None = None
        self._launched = 0
        self._works: list[Work[Array]] = []
        self._used: set[int] = set()  # since gradients were last averaged, in this and earlier backwards
        for leaf in leaves:
            for hook in leaf.post_hooks or ():
                if isinstance(hook, _Arrival):
                    hook.reducer.release()
        flats = bucket_memory(plans, [part_of(leaves[plan.slots[0].index].data) for plan in plans], group)
        for plan, flat in zip(plans, flats, strict=True):
            bucket = Bucket(plan, flat)
            self.buckets.append(bucket)
            for slot in plan.slots:
                self._place[slot.index] = bucket, slot
                leaf = leaves[slot.index]
                if views and not isinstance(leaf, DTensor):  # one that is must first lie as its leaf does
                    leaf.grad_into(bucket.view(slot, leaf.shape))
        self._handles = [
            leaf.register_post_accumulate_grad_hook(_Arrival(self, i)) for i, leaf in enumerate(leaves)
        ]

    def release(self) -> None:
        """Leave the leaves alone from now on; gradients that they have stay."""
        self.released = True
        for handle in self._handles:
            handle.remove()
        if self._views:
            for leaf in self._leaves:
                leaf.grad_into(None)

    def settle(self) -> None:
        """Wait for what a backward that was cut short by an error has left under way.

        A bucket that is still being reduced must not be written by the next backward.
        """
        if self._works and current_task() is not self._task:
            self._task = None
            self._wait()

    def arrived(self, index: int) -> None:
        """Note a finished gradient; launch every bucket whose turn has come."""
        if self._find_unused:
            self._used.add(index)
        if not self.sync:
            return
        task = current_task()
        if task is not None and task is not self._task:
            self._begin(task)
        bucket, slot = self._place[index]
        bucket.missing.discard(index)
        self._copy_in(bucket, slot)
        while self._launched < len(self.buckets) and not self.buckets[self._launched].missing:
            self._launch()

    def _begin(self, task: GraphTask) -> None:
        self._wait()
        if task.create_graph:
            raise AutogradError(
                f"rank {self._group.transport.rank}: gradients that DistributedDataParallel averages "
                "cannot be differentiated again (create_graph=True in backward); use grad() for the inner "
                "gradients"
            )
        self._task = task
        self._launched = 0
        for bucket in self.buckets:
            bucket.reset()
        task.on_finish(self._finish)

    def _launch(self) -> None:
        flat = self.buckets[self._launched].flat
        self._launched += 1
        if self._group.size > 1:
            with implicit():
                self._works.append(all_reduce(flat, "avg", self._group, out=flat, async_op=True))

    def _copy_in(self, bucket: Bucket, slot: Slot) -> None:
        leaf = self._leaves[slot.index]
        place = bucket.view(slot, part_of(leaf.data).shape)
        if leaf.grad is None:
            place[...] = 0
        elif leaf.grad.data is not leaf.sink:  # else it is there already
            place[...] = part_of(leaf.grad.data)

    def _finish(self) -> None:
        """End a backward: all gradients are averaged, or named as missing."""
        self._task = None
        unused = sorted(i for bucket in self.buckets for i in bucket.missing)
        frozen = {i for i in unused if not self._leaves[i].requires_grad}
        if len(unused) > len(frozen) and not self._find_unused:
            self._wait()
            raise AutogradError(self._complaint([i for i in unused if i not in frozen]))
        before: dict[int, Array] = {}  # what unused leaves have in a bucket that is reduced all the same
        for index in unused:
            grad = self._leaves[index].grad
            if grad is not None:
                before[index] = grad.data.copy()
            self._copy_in(*self._place[index])
        while self._launched < len(self.buckets):
            self._launch()
        untouched = frozen | self._unused_everywhere()
        self._wait()
        for index, leaf in enumerate(self._leaves):
            if index not in untouched:
                self._copy_out(index, leaf)
            elif index in before and leaf.grad is not None:
                leaf.grad.data[...] = before[index]  # as without data parallelism: what it had stays

    def _copy_out(self, index: int, leaf: Tensor) -> None:
        bucket, slot = self._place[index]
        if isinstance(leaf, DTensor):
            place, layout = bucket.view(slot, leaf.data.local.shape), leaf.layout.reduced()
            leaf.grad = DTensor(ShardedArray(place if self._views else place.copy(), layout))
        elif self._views and leaf.sink is not None:
            if leaf.grad is None or leaf.grad.data is not leaf.sink:
                leaf.grad = Tensor(leaf.sink)
        elif leaf.grad is None:
            leaf.grad = Tensor(bucket.view(slot, leaf.shape).copy())
        else:
            leaf.grad.data[...] = bucket.view(slot, leaf.shape)

    def _unused_everywhere(self) -> set[int]:
        if not self._find_unused:
            return set()
        used = np.zeros(len(self._leaves), np.uint8)
        used[sorted(self._used)] = 1
        self._used.clear()
        with implicit():
            return set(np.flatnonzero(all_reduce(used, "max", self._group) == 0).tolist())

    def _complaint(self, unused: list[int]) -> str:
        names = ", ".join(self._names[i] for i in unused)
        return (
            f"rank {self._group.transport.rank}: {len(unused)} of {len(self._names)} parameters got no "
            f"gradient in this backward: {names}. Use them in the loss, freeze them with "
            "requires_grad_(False), or pass find_unused_parameters=True."
        )

    def _wait(self) -> None:
        works, self._works = self._works, []
        for work in works:
            work.wait()


class _Arrival:
    """The hook on one leaf."""

    __slots__ = ("_index", "reducer")

    def __init__(self, reducer: Reducer, index: int) -> None:
        self.reducer = reducer
        self._index = index

    def __call__(self, leaf: Tensor) -> None:
        self.reducer.arrived(self._index)
