"""`parallelize_module`: a plan of styles, by the paths of modules, carried out on a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from shardwise.backend.errors import ArgumentError, ModuleError
from shardwise.mesh import DeviceMesh, get_current_mesh
from shardwise.nn import Module, Parameter
from shardwise.parallel.style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Run modules in parallel over the ranks of an axis: tensor and sequence parallelism.

    Parameters
    ----------
    module : Module
    device_mesh : DeviceMesh, optional
        Of one axis; ``mesh["tp"]`` takes one out of a larger mesh. The mesh of the ``with`` block around, if
        not given.
    parallelize_plan : style, or mapping of str to style
        A style for `module` itself, or one per path of modules in it: ``"blocks.*.up"``, in which ``*``,
        ``?`` and ``[...]`` match within one name; ``""`` is `module`. Styles that match
        one module apply in order.
    src_data_rank : int, optional
        Whose values parameters get: of that rank of the axis. None takes each rank's own, which must be the
        same; nothing is sent then.

    Returns
    -------
    Module
        The same one. Its parameters are other objects now: make the optimizer afterwards.

    Raises
    ------
    ArgumentError
        The mesh has several axes, or the plan holds something that is no style.
    ModuleError
        A style does not fit its module.
    LayoutError
        Modules that share a parameter got styles that put it into different layouts.

    Notes
    -----
    Modules that the plan does not name stay as they are. A path that matches nothing warns. A parameter
    that several modules share stays shared.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> from shardwise.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
    >>> mesh = sw.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    >>> model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    >>> model[0].weight.placements, model(sw.ones(3, 4)).shape
    ((Shard(0),), (3, 4))
    """
    if not isinstance(module, Module):
        raise ModuleError(f"parallelize_module takes a Module, not a {type(module).__name__}")
    device_mesh = get_current_mesh() if device_mesh is None else device_mesh
    if not isinstance(device_mesh, DeviceMesh) or device_mesh.ndim != 1:
        raise ArgumentError(
            f"parallelize_module: device_mesh must be a DeviceMesh of one axis, got {device_mesh!r}; take "
            'one axis of a larger mesh, as in mesh["tp"]'
        )
    plan: Mapping[str, Any] = (
        parallelize_plan if isinstance(parallelize_plan, Mapping) else {"": parallelize_plan}
    )
    for pattern, style in plan.items():
        if not callable(getattr(style, "apply", None)):
            raise ArgumentError(
                f"parallelize_module: the plan has {style!r} for {pattern!r}, which is no style"
            )
    for pattern, style in plan.items():
        found = [each for path, each in module.named_modules() if _matches(path, pattern)]
        if not found:
            warnings.warn(
                f"parallelize_module: {pattern!r} matches no module of {type(module).__name__}; its style is "
                "not used",
                stacklevel=2,
            )
        for each in found:
            before = dict(each.named_parameters(recurse=False, remove_duplicate=False))
            style.apply(each, device_mesh, src_data_rank)
            _share(module, {id(p): getattr(each, name) for name, p in before.items()})
    return module


def _matches(path: str, pattern: str) -> bool:
    """Tell whether a dotted path matches a pattern, name by name."""
    if not path or not pattern:
        return path == pattern
    names, patterns = path.split("."), pattern.split(".")
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


def _share(module: Module, placed: dict[int, Parameter]) -> None:
    """Give all modules that hold a parameter the one that took its place."""
    for each in module.modules():
        for name, parameter in list(each.named_parameters(recurse=False, remove_duplicate=False)):
            new = placed.get(id(parameter), parameter)
            if new is not parameter:
                setattr(each, name, new)
