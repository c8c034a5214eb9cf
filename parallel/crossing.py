"""Where plain tensors become sharded ones and back, at the doors of a module that runs in parallel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from shardwise.backend.errors import LayoutError
from shardwise.dtensor import DTensor, Layout, Partial, Placement, Shard, distribute_tensor, from_local
from shardwise.dtensor.placement import PlacementLike, as_placement
from shardwise.mesh import DeviceMesh
from shardwise.nn import Module
from shardwise.tensor import Tensor

__all__ = [
    "Layouts",
    "entered",
    "entered_all",
    "entered_by_name",
    "left",
    "left_all",
    "place_parameter",
    "read_layouts",
]

Layouts: TypeAlias = "PlacementLike | Sequence[PlacementLike | None] | None"
"""A placement for one value, or one per value, with None for what is left alone."""


def read_layouts(layouts: Layouts) -> tuple[Placement | None, ...] | None:
    """Return one placement per value, or None if none were given."""
    if layouts is None:
        return None
    each = layouts if isinstance(layouts, (tuple, list)) else (layouts,)
    return tuple([None if one is None else as_placement(one) for one in each])


def entered(
    value: Any,
    mesh: DeviceMesh,
    given: Placement | None,
    wanted: Placement | None,
    name: str,
    sizes: tuple[int, ...] | None = None,
) -> Any:
    """Return an input as a DTensor that lies as wanted.

    Parameters
    ----------
    value : Tensor
        A plain one is this rank's part of what lies as `given` says.
    mesh : DeviceMesh
        Of one axis.
    given, wanted : Placement or None
        None leaves the value, or its layout, alone.
    name : str
        What it is, for messages.
    sizes : tuple of int, optional
        The shape of the whole; told by the parts, if not given.
    """
    if not isinstance(value, Tensor) or given is None:
        return value
    if not isinstance(value, DTensor):
        value = from_local(value, mesh, [given], shape=sizes)
    elif value.device_mesh != mesh:
        raise LayoutError(
            f"{name} is a DTensor on {value.device_mesh!r}, and the module runs in parallel on {mesh!r}; "
            "bring it there by redistribute(mesh=...)"
        )
    return value if wanted is None else _moved(value, wanted)


def left(value: Any, wanted: Placement | None, local: bool) -> Any:
    """Return an output in the layout that is wanted; this rank's part of it, if `local`."""
    if not isinstance(value, DTensor):
        return value
    if wanted is not None:
        value = _moved(value, wanted)
    return value.to_local() if local else value


def entered_all(
    values: Sequence[Any],
    mesh: DeviceMesh,
    given: Sequence[Placement | None],
    wanted: Sequence[Placement | None],
    local: bool,
    name: str,
) -> tuple[Any, ...]:
    """Return inputs as `entered` does one by one; those that have no layout stay as they are."""
    if len(values) != len(given):
        raise LayoutError(
            f"{name}: {len(values)} inputs came, and input_layouts has {len(given)}; give one per input, "
            "None for what is to be left alone"
        )
    found = []
    for i, (value, before, after) in enumerate(zip(values, given, wanted, strict=True)):
        one = entered(value, mesh, before, after, f"input {i} of {name}")
        found.append(one.to_local() if local and before is not None and isinstance(one, DTensor) else one)
    return tuple(found)


def left_all(
    values: Any,
    mesh: DeviceMesh,
    given: Sequence[Placement | None],
    wanted: Sequence[Placement | None],
    local: bool,
    name: str,
) -> Any:
    """Return outputs, one or a tuple of them, brought into the layouts that are wanted."""
    each = values if isinstance(values, (tuple, list)) else (values,)
    if len(each) != len(given):
        raise LayoutError(
            f"{name}: {len(each)} outputs came, and output_layouts has {len(given)}; give one per output, "
            "None for what is to be left alone"
        )
    found = [
        one
        if before is None
        else left(entered(one, mesh, before, None, f"output {i} of {name}"), after, local)
        for i, (one, before, after) in enumerate(zip(each, given, wanted, strict=True))
    ]
    return type(values)(found) if isinstance(values, (tuple, list)) else found[0]


def entered_by_name(
    values: Mapping[str, Any],
    mesh: DeviceMesh,
    given: Mapping[str, PlacementLike | None],
    wanted: Mapping[str, PlacementLike | None],
    local: bool,
    name: str,
) -> dict[str, Any]:
    """Return keyword inputs as `entered` does; those that are not named stay as they are."""
    found = dict(values)
    for key in values:
        if given.get(key) is None:
            continue
        before, after = given[key], wanted.get(key)
        one = entered(
            values[key],
            mesh,
            None if before is None else as_placement(before),
            None if after is None else as_placement(after),
            f"input {key} of {name}",
        )
        found[key] = one.to_local() if local and isinstance(one, DTensor) else one
    return found


def place_parameter(
    module: Module, name: str, mesh: DeviceMesh, placement: Placement, source: int | None
) -> None:
    """Put a parameter of a module on a mesh, where it is not there yet.

    Raises
    ------
    LayoutError
        It lies otherwise already: the module was parallelized before, or shares it with one that was.
    """
    parameter = getattr(module, name, None)
    if parameter is None:
        return
    wanted = Layout(mesh, [placement], parameter.shape, parameter.dtype)
    if isinstance(parameter, DTensor):
        if parameter.layout is not wanted:
            raise LayoutError(
                f"{name} of a {type(module).__name__} lies as {parameter.layout!r} already, and the plan "
                f"puts it on {mesh!r} as {placement}; give modules that share a parameter styles that agree"
            )
        return
    placed = distribute_tensor(parameter, mesh, [placement], src_data_rank=source)
    setattr(module, name, placed)


def _moved(value: DTensor, wanted: Placement) -> DTensor:
    """Return a tensor in a placement on its one axis; terms of a sum may stay such."""
    target = value.layout.with_placements([wanted])
    if target is value.layout:
        return value
    if isinstance(wanted, Partial):
        raise LayoutError(
            f"a DTensor that lies as {value.layout} cannot be made {wanted}; name Shard or Replicate"
        )
    if isinstance(wanted, Shard) and not value.ndim:
        raise LayoutError("a tensor without dims cannot be sharded")
    return value.redistribute(value.device_mesh, [wanted])
