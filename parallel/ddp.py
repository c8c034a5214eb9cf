"""Data parallelism: every rank holds the whole model and a part of the batch (Li et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from shardwise.backend.errors import AutogradError, ModuleError
from shardwise.collectives import ProcessGroup, Work, all_gather_object, all_reduce, broadcast, get_group
from shardwise.nn import Module, Parameter
from shardwise.parallel.bucket import Bucket, plan_buckets
from shardwise.tensor import GraphTask, Tensor, current_task, row_window

__all__ = ["DistributedDataParallel"]

_MIB = 1024 * 1024


class DistributedDataParallel(Module):
    """Average gradients over the ranks of a group while backward is still running.

    The engine writes each gradient straight into a flat bucket. A bucket whose gradients are all
    there is all-reduced in the background, in the order of the buckets, and backward ends when
    all have arrived. Ranks with equal parts of a batch thus do the step of the whole batch.

    Parameters
    ----------
    module : Module
        The same on all ranks, in names, shapes and dtypes: this is checked.
    process_group : ProcessGroup, optional
        The world, if not given.
    bucket_cap_mb : float
        Size of a bucket in MiB. If not given, 25, with a first one of 1.
    gradient_as_bucket_view : bool
        Let ``grad`` be a view into the bucket. Otherwise gradients are copied in and out.
    find_unused_parameters : bool
        Accept parameters that get no gradient in a backward. Otherwise they are an error.
    broadcast_buffers : bool
        Before each training forward, take the buffers of the group's first rank.
    init_sync : bool
        Take parameters and buffers of the group's first rank at once.

    Raises
    ------
    ModuleError
        The module differs between ranks, or learns nothing.

    Notes
    -----
    Construction gathers the parameters' descriptions and broadcasts parameters and buffers, once
    per dtype. Each backward all-reduces every gradient once: ``2 (n - 1) / n`` times their bytes
    leave each of `n` ranks with ring algorithms. Random masks are those of the global batch: the
    rows of rank r follow those of rank r - 1, with equal numbers of rows.

    References
    ----------
    Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
    section 3.2.
    """

    transparent: ClassVar[bool] = True
    module: Module

    def __init__(
        self,
        module: Module,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        gradient_as_bucket_view: bool = True,
        find_unused_parameters: bool = False,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
    ) -> None:
        super().__init__()
        if bucket_cap_mb is not None and bucket_cap_mb <= 0:
            raise ModuleError(f"bucket_cap_mb must be positive, got {bucket_cap_mb}")
        self.module = module
        self.process_group = get_group() if process_group is None else process_group
        if self.process_group.rank is None:
            raise ModuleError(
                f"this rank is not in the process group {self.process_group}; construct "
                "DistributedDataParallel on the group's members only"
            )
        self.find_unused_parameters = find_unused_parameters
        self.broadcast_buffers = broadcast_buffers
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_sync = True
        learned = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        self._names: list[str] = [name for name, _ in learned]
        self._learned: list[Parameter] = [p for _, p in learned]
        self._check_alike()
        if init_sync:
            self._take_state((*module.parameters(), *module.buffers()))
        self._make_buckets(bucket_cap_mb)
        self._task: GraphTask | None = None
        self._launched = 0
        self._works: list[Work[Any]] = []

    # ---- construction

    def _check_alike(self) -> None:
        group = self.process_group
        mine = [(name, p.shape, str(p.dtype), p.requires_grad) for name, p in self.module.named_parameters()]
        everyone = all_gather_object(mine, group)
        for r, theirs in enumerate(everyone):
            if theirs == everyone[0]:
                continue
            for first, other in zip(everyone[0], theirs, strict=False):
                if first != other:
                    raise ModuleError(
                        f"the module differs between ranks: rank {group.ranks[0]} has "
                        f"{_describe(first)} where rank {group.ranks[r]} has {_describe(other)}. Build the same model on all ranks."
                    )
            raise ModuleError(
                f"the module differs between ranks: rank {group.ranks[0]} has {len(everyone[0])} parameters, "
                f"rank {group.ranks[r]} has {len(theirs)}. Build the same model on all ranks."
            )
        if not self._learned:
            raise ModuleError(
                f"{type(self.module).__name__} has no parameter that requires grad; it needs no DDP"
            )
        for name, p in zip(self._names, self._learned, strict=True):
            if p.sink is not None:
                raise ModuleError(f"parameter {name} is in another DistributedDataParallel already")

    def _take_state(self, tensors: Sequence[Tensor]) -> None:
        """Copy tensors from the group's first rank, with one broadcast per dtype."""
        if self.process_group.size == 1:
            return
        dtypes = dict.fromkeys(t.dtype for t in tensors)
        for dtype in dtypes:
            some = [t for t in tensors if t.dtype == dtype]
            flat = np.concatenate([t.data.reshape(-1) for t in some])
            broadcast(flat, src=self.process_group.ranks[0], group=self.process_group, out=flat)
            start = 0
            for t in some:
                t.data[...] = flat[start : start + t.data.size].reshape(t.shape)
                t.version.count += 1
                start += t.data.size

    def _make_buckets(self, bucket_cap_mb: float | None) -> None:
        params = self._learned
        cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MIB)
        plans = plan_buckets(
            [p.data.size for p in params],
            [p.dtype for p in params],
            cap,
            min(cap, _MIB) if bucket_cap_mb is None else None,
        )
        self._buckets: list[Bucket] = []
        self._bucket_of: dict[int, int] = {}
        for k, plan in enumerate(plans):
            bucket = Bucket(plan, np.zeros_like(params[plan.slots[0].index].data, shape=(plan.size,)))
            self._buckets.append(bucket)
            for slot in plan.slots:
                self._bucket_of[slot.index] = k
                if self.gradient_as_bucket_view:
                    params[slot.index].grad_into(bucket.view(slot, params[slot.index].shape))
        for i, p in enumerate(params):
            p.register_post_accumulate_grad_hook(lambda _, i=i: self._arrived(i))  # type: ignore[misc]

    # ---- a step

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module on this rank's rows of the batch."""
        if self.training and self.broadcast_buffers:
            buffers = tuple(self.module.buffers())
            if buffers:
                self._take_state(buffers)
        rows = next((a.shape[0] for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and a.ndim), 0)
        with row_window((self.process_group.rank or 0) * rows, rows):
            return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients of backwards in the block on their rank.

        They add up, and the first backward outside averages the sum.
        """
        before, self.require_sync = self.require_sync, False
        try:
            yield
        finally:
            self.require_sync = before

    def _arrived(self, index: int) -> None:
        """Note a finished gradient; launch every bucket whose turn has come."""
        if not self.require_sync:
            return
        task = current_task()
        if task is not None and task is not self._task:
            self._wait()  # of a backward that was cut short by an error
            self._task = task
            self._launched = 0
            for bucket in self._buckets:
                bucket.reset()
            task.on_finish(self._finish)
        bucket = self._buckets[self._bucket_of[index]]
        bucket.missing.discard(index)
        if not self.gradient_as_bucket_view:
            self._copy_in(index)
        # a bucket never overtakes an earlier one, so that all ranks launch in the same order
        while self._launched < len(self._buckets) and not self._buckets[self._launched].missing:
            self._launch(self._buckets[self._launched])

    def _launch(self, bucket: Bucket) -> None:
        self._works.append(all_reduce(bucket.flat, "avg", self.process_group, out=bucket.flat, async_op=True))
        self._launched += 1

    def _copy_in(self, index: int) -> None:
        bucket = self._buckets[self._bucket_of[index]]
        slot = next(slot for slot in bucket.plan.slots if slot.index == index)
        grad = self._learned[index].grad
        view = bucket.view(slot, self._learned[index].shape)
        view[...] = 0 if grad is None else grad.data

    def _finish(self) -> None:
        """End a backward: all gradients are averaged, or named as missing."""
        self._task = None
        unused = sorted(i for bucket in self._buckets for i in bucket.missing)
        if unused and not self.find_unused_parameters:
            self._wait()
            names = ", ".join(self._names[i] for i in unused)
            group = self.process_group
            raise AutogradError(
                f"rank {group.ranks[group.rank or 0]}: {len(unused)} of {len(self._names)} parameters "
                f"got no gradient in this backward: {names}. Use them in the loss, freeze them "
                "with requires_grad_(False), or pass find_unused_parameters=True."
            )
        for index in unused:
            self._copy_in(index)
        while self._launched < len(self._buckets):
            self._launch(self._buckets[self._launched])
        everywhere_unused: set[int] = set()
        if self.find_unused_parameters:
            used = np.ones(len(self._names), np.uint8)
            used[unused] = 0
            everywhere_unused = set(np.flatnonzero(all_reduce(used, "max", self.process_group) == 0).tolist())
        self._wait()
        for bucket in self._buckets:
            for slot in bucket.plan.slots:
                if slot.index in everywhere_unused:
                    continue  # as without DDP: what it had stays
                param = self._learned[slot.index]
                view = bucket.view(slot, param.shape)
                if self.gradient_as_bucket_view:
                    if param.grad is None:
                        param.grad = Tensor(param.sink if param.sink is not None else view)
                elif param.grad is None:
                    param.grad = Tensor(view.copy())
                else:
                    param.grad.data[...] = view

    def _wait(self) -> None:
        works, self._works = self._works, []
        for work in works:
            work.wait()

    def extra_repr(self) -> str:
        """Show the group and the buckets."""
        sizes = [round(b.flat.nbytes / _MIB, 1) for b in self._buckets]
        return f"ranks={list(self.process_group.ranks)}, buckets_mib={sizes}"


def _describe(parameter: tuple[str, tuple[int, ...], str, bool]) -> str:
    name, shape, dtype, learned = parameter
    return f"{name} {shape} {dtype}{'' if learned else ' (frozen)'}"
