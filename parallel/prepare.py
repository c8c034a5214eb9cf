"""Styles that leave parameters alone, and bring a module's inputs and outputs into layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardwise.backend.errors import ArgumentError
from shardwise.dtensor.placement import PlacementLike
from shardwise.mesh import DeviceMesh
from shardwise.nn import Module
from shardwise.parallel.crossing import Layouts, entered_all, entered_by_name, left_all, read_layouts

__all__ = ["PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput"]

NamedLayouts = Mapping[str, PlacementLike | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareModuleInput:
    """Make DTensors of a module's inputs, and bring them into the layouts that it wants.

    Parameters
    ----------
    input_layouts : Placement, or tuple of (Placement or None), optional
        How plain inputs lie over the ranks, one per positional input; None leaves an input alone.
    desired_input_layouts : Placement, or tuple of (Placement or None), optional
        Where to; needed with `input_layouts`, and as many.
    input_kwarg_layouts, desired_input_kwarg_layouts : mapping of str to (Placement or None), optional
        The same for keyword inputs.
    use_local_output : bool
        Give the module this rank's part of each as a plain tensor.

    Raises
    ------
    ArgumentError
        Numbers of layouts that do not match.
    """

    input_layouts: Layouts = None
    desired_input_layouts: Layouts = None
    input_kwarg_layouts: NamedLayouts | None = None
    desired_input_kwarg_layouts: NamedLayouts | None = None
    use_local_output: bool = False

    def __post_init__(self) -> None:
        _check_inputs(self, type(self).__name__)

    def apply(self, module: Module, mesh: DeviceMesh, src_data_rank: int | None) -> None:
        """Hook the inputs."""
        _hook_inputs(self, self.use_local_output, module, mesh)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareModuleOutput:
    """Bring a module's outputs into layouts.

    Parameters
    ----------
    output_layouts : Placement, or tuple of (Placement or None)
        How plain outputs lie over the ranks, one per output; None leaves an output alone.
    desired_output_layouts : Placement, or tuple of (Placement or None)
        Where to; as many.
    use_local_output : bool
        Give this rank's part of each as a plain tensor, and not a DTensor.

    Raises
    ------
    ArgumentError
        Numbers of layouts that do not match.
    """

    output_layouts: Layouts
    desired_output_layouts: Layouts
    use_local_output: bool = True

    def __post_init__(self) -> None:
        _check_outputs(self, type(self).__name__)

    def apply(self, module: Module, mesh: DeviceMesh, src_data_rank: int | None) -> None:
        """Hook the outputs."""
        _hook_outputs(self, module, mesh)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareModuleInputOutput:
    """Do what `PrepareModuleInput` and `PrepareModuleOutput` do, with their parameters.

    Parameters
    ----------
    input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts
        As for `PrepareModuleInput`.
    use_local_input : bool
        Give the module this rank's part of each input as a plain tensor.
    output_layouts, desired_output_layouts, use_local_output
        As for `PrepareModuleOutput`.
    """

    input_layouts: Layouts = None
    desired_input_layouts: Layouts = None
    input_kwarg_layouts: NamedLayouts | None = None
    desired_input_kwarg_layouts: NamedLayouts | None = None
    use_local_input: bool = False
    output_layouts: Layouts
    desired_output_layouts: Layouts
    use_local_output: bool = True

    def __post_init__(self) -> None:
        _check_inputs(self, type(self).__name__)
        _check_outputs(self, type(self).__name__)

    def apply(self, module: Module, mesh: DeviceMesh, src_data_rank: int | None) -> None:
        """Hook the inputs and the outputs."""
        _hook_inputs(self, self.use_local_input, module, mesh)
        _hook_outputs(self, module, mesh)


def _check_inputs(style: PrepareModuleInput | PrepareModuleInputOutput, name: str) -> None:
    given, wanted = read_layouts(style.input_layouts), read_layouts(style.desired_input_layouts)
    if (given is None) != (wanted is None) or (given and wanted and len(given) != len(wanted)):
        raise ArgumentError(
            f"{name}: input_layouts and desired_input_layouts must have equally many entries, got "
            f"{style.input_layouts} and {style.desired_input_layouts}"
        )
    before, after = style.input_kwarg_layouts or {}, style.desired_input_kwarg_layouts or {}
    if before.keys() != after.keys():
        raise ArgumentError(
            f"{name}: input_kwarg_layouts and desired_input_kwarg_layouts must name the same inputs, got "
            f"{sorted(before)} and {sorted(after)}"
        )


def _check_outputs(style: PrepareModuleOutput | PrepareModuleInputOutput, name: str) -> None:
    given, wanted = read_layouts(style.output_layouts), read_layouts(style.desired_output_layouts)
    if given is None or wanted is None or len(given) != len(wanted):
        raise ArgumentError(
            f"{name}: output_layouts and desired_output_layouts must have equally many entries, got "
            f"{style.output_layouts} and {style.desired_output_layouts}"
        )


def _hook_inputs(
    style: PrepareModuleInput | PrepareModuleInputOutput, local: bool, module: Module, mesh: DeviceMesh
) -> None:
    given, wanted = read_layouts(style.input_layouts), read_layouts(style.desired_input_layouts)
    by_name, wanted_by_name = style.input_kwarg_layouts or {}, style.desired_input_kwarg_layouts or {}
    name = type(module).__name__

    def before(
        module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if given is not None and wanted is not None:
            args = entered_all(args, mesh, given, wanted, local, name)
        return args, entered_by_name(kwargs, mesh, by_name, wanted_by_name, local, name)

    module.register_forward_pre_hook(before, with_kwargs=True)


def _hook_outputs(
    style: PrepareModuleOutput | PrepareModuleInputOutput, module: Module, mesh: DeviceMesh
) -> None:
    given, wanted = read_layouts(style.output_layouts) or (), read_layouts(style.desired_output_layouts) or ()
    name, local = type(module).__name__, style.use_local_output
    module.register_forward_hook(
        lambda module, args, output: left_all(output, mesh, given, wanted, local, name)
    )
