"""Data parallelism: every rank holds the whole model and a part of the batch (Li et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

import numpy as np

from shardwise.backend.device import Device
from shardwise.backend.errors import ArgumentError, DeviceError, ModuleError
from shardwise.collectives import ProcessGroup, get_group
from shardwise.dtensor import DTensor
from shardwise.mesh import DeviceMesh
from shardwise.nn import Module
from shardwise.parallel.bucket import plan_buckets
from shardwise.parallel.reducer import Reducer
from shardwise.parallel.replica import check_alike, copy_from_first, part_of
from shardwise.tensor import Tensor, row_window

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
        Accept parameters that get no gradient in a backward: they count as zero where others have
        one, and keep what they had where nobody has. Otherwise they are an error.
    broadcast_buffers : bool
        Before each training forward outside `no_sync`, take the buffers of the group's first rank.
    init_sync : bool
        Take parameters and buffers of the group's first rank at once.
    device_mesh : DeviceMesh, optional
        Of one axis, whose group is meant: ``mesh["dp"]``. Parameters may lie in parts on the other axes, as
        `parallelize_module` leaves them on ``mesh["tp"]``; each rank averages its parts.
    device_ids : sequence of one int or device, optional
    output_device : int or device, optional
        For scripts that were written for PyTorch, and of no effect: each rank computes where its parameters
        are. It is checked that this is what they say.

    Raises
    ------
    ModuleError
        The module or the options differ between ranks, or nothing is to be learned.
    DeviceError
        The parameters are not on the device that `device_ids` or `output_device` names.

    Notes
    -----
    Construction gathers the parameters' descriptions and broadcasts parameters and buffers, once
    per dtype and 250 MiB. Each backward all-reduces every gradient once: ``2 (n - 1) / n`` times their bytes
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
        *,
        device_ids: Sequence[int | str] | None = None,
        output_device: int | str | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise ModuleError(f"DistributedDataParallel wraps a Module, not {type(module).__name__}")
        if bucket_cap_mb is not None and not bucket_cap_mb > 0:
            raise ArgumentError(
                f"DistributedDataParallel: bucket_cap_mb must be positive, got {bucket_cap_mb}"
            )
        if process_group is not None and not isinstance(process_group, ProcessGroup):
            raise ModuleError(
                "DistributedDataParallel: process_group must be a ProcessGroup, got "
                f"{process_group!r}; give device_ids by name, or leave them out"
            )
        _check_devices(module, device_ids, output_device)
        if device_mesh is not None:
            if process_group is not None or not isinstance(device_mesh, DeviceMesh) or device_mesh.ndim != 1:
                raise ArgumentError(
                    'DistributedDataParallel: device_mesh must be a DeviceMesh of one axis, like mesh["dp"], '
                    f"and no process_group; got {device_mesh!r} and process_group={process_group}"
                )
            process_group = device_mesh.get_group()
        group = get_group() if process_group is None else process_group
        if group.rank is None:
            raise ModuleError(
                f"rank {group.transport.rank} is not in the process group {list(group.ranks)}; construct "
                "DistributedDataParallel on the group's members only"
            )
        self.module = module
        self.process_group = group
        self.broadcast_buffers = broadcast_buffers
        options = (
            f"bucket_cap_mb={bucket_cap_mb}, gradient_as_bucket_view={gradient_as_bucket_view}, "
            f"find_unused_parameters={find_unused_parameters}, broadcast_buffers={broadcast_buffers}, "
            f"init_sync={init_sync}"
        )
        _check_meshes(module, group)
        check_alike(module, options, group)
        named = list(module.named_parameters())
        learned = [(name, p) for name, p in named if p.requires_grad]
        self._frozen = [(name, p) for name, p in named if not p.requires_grad]
        if not learned:
            raise ModuleError(
                f"{type(module).__name__} has no parameter that requires grad; it needs no "
                "DistributedDataParallel"
            )
        if init_sync:
            copy_from_first((*module.parameters(), *module.buffers()), group)
        cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MIB)
        plans = plan_buckets(
            [part_of(p.data).size for _, p in learned],
            [p.dtype for _, p in learned],
            cap,
            _MIB if bucket_cap_mb is None else None,
        )
        self._reducer = Reducer(
            [name for name, _ in learned],
            [p for _, p in learned],
            plans,
            group,
            gradient_as_bucket_view,
            find_unused_parameters,
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module on this rank's rows of the batch."""
        self._check_current()
        self._reducer.settle()
        if self.training and self.broadcast_buffers and self._reducer.sync:
            copy_from_first(tuple(self.module.buffers()), self.process_group)
        rows = _rows((args, kwargs))
        with row_window((self.process_group.rank or 0) * rows, rows):
            return self.module(*args, **kwargs)

    def _check_current(self) -> None:
        if self._reducer.released:
            raise ModuleError(
                "the module was wrapped in another DistributedDataParallel, which averages its gradients "
                "now; call that one"
            )
        for name, p in self._frozen:
            if p.requires_grad:
                raise ModuleError(
                    f"{name} was frozen when DistributedDataParallel was constructed and requires grad now, "
                    "so its gradient would not be averaged; construct DistributedDataParallel again"
                )

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients of backwards in the block on their rank; nothing is sent.

        They add up, and the first backward outside averages the sum.
        """
        before, self._reducer.sync = self._reducer.sync, False
        try:
            yield
        finally:
            self._reducer.sync = before

    def __getstate__(self) -> NoReturn:
        raise ModuleError(
            "a DistributedDataParallel belongs to its running group and is neither copied nor pickled; copy "
            "or pickle its module (.module) or state_dict(), and wrap the copy"
        )

    def extra_repr(self) -> str:
        """Show the group and the buckets."""
        sizes = [round(b.flat.nbytes / _MIB, 1) for b in self._reducer.buckets]
        return f"ranks={list(self.process_group.ranks)}, buckets_mib={sizes}"


def _check_meshes(module: Module, group: ProcessGroup) -> None:
    """Raise if a sharded parameter lies over ranks of the group, which each are to have a replica."""
    for name, p in module.named_parameters():
        if isinstance(p, DTensor):
            common = sorted(set(group.ranks) & set(p.device_mesh.mesh.reshape(-1).tolist()))
            if len(common) > 1:
                raise ModuleError(
                    f"DistributedDataParallel: the parameter {name} lies over {p.device_mesh!r}, "
                    f"with the ranks {common} of the group {list(group.ranks)}; average over another axis "
                    'of the mesh, as in DistributedDataParallel(module, device_mesh=mesh["dp"])'
                )


def _check_devices(
    module: Module, device_ids: Sequence[int | str] | None, output_device: int | str | None
) -> None:
    """Raise unless the parameters are on the one device that is named, if one is."""
    named = [] if output_device is None else [("output_device", output_device)]
    if device_ids is not None and len(device_ids):
        if isinstance(device_ids, str) or len(device_ids) > 1:
            raise ArgumentError(
                "DistributedDataParallel: a rank computes on one device, so device_ids must be a list of "
                f"one, got {device_ids!r}; start a rank per device"
            )
        named.append(("device_ids", device_ids[0]))
    for argument, name in named:
        wanted = Device(name)
        for parameter, p in module.named_parameters():
            if p.device.type != wanted.type or wanted.index not in (None, p.device.index):
                raise DeviceError(
                    f"DistributedDataParallel: {argument} names {wanted}, and the parameter {parameter} is "
                    f"on {p.device}; move the module there with to({str(wanted)!r}), or leave {argument} out"
                )


def _rows(value: object) -> int:
    """Return the length of the first tensor or array with a dim, looking into tuples, lists and dicts."""
    if isinstance(value, (Tensor, np.ndarray)):
        return value.shape[0] if value.shape else 0
    parts = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    )
    return next((rows for rows in map(_rows, parts) if rows), 0)
