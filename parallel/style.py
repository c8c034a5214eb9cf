"""Tensor parallelism, style by style: how the parameters of one module are cut, and what goes in and out.

A style is a frozen dataclass that changes a module for good: parameters become DTensors, and hooks bring
inputs and outputs into the layouts that the style names (Shoeybi et al. 2019; Korthikanti et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from shardwise.backend.errors import ModuleError
from shardwise.dtensor import Placement, Replicate, Shard
from shardwise.dtensor.placement import PlacementLike, as_placement
from shardwise.mesh import DeviceMesh
from shardwise.nn import Embedding, Linear, Module
from shardwise.parallel.crossing import entered, left, place_parameter

__all__ = ["ColwiseParallel", "ParallelStyle", "RowwiseParallel", "SequenceParallel"]


_WHOLE, _LAST = Replicate(), Shard(-1)


class ParallelStyle(Protocol):
    """What `parallelize_module` asks of a style."""

    def apply(self, module: Module, mesh: DeviceMesh, src_data_rank: int | None) -> None:
        """Cut the parameters of `module` over the one axis of `mesh`, and hook its inputs and outputs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ColwiseParallel:
    """Cut the output features of a `Linear`, or the dim of an `Embedding`: each rank makes some of them.

    Parameters
    ----------
    input_layouts : Placement
        How a plain input lies over the ranks; replicated, if not given. The module needs it replicated.
    output_layouts : Placement
        How the output shall lie; ``Shard(-1)``, as it comes, if not given.
    use_local_output : bool
        Give this rank's part of the output as a plain tensor, and not a DTensor.

    Notes
    -----
    Forward: an all-gather if the input is sharded, else nothing. Backward: the gradient of the input is a sum
    over the ranks, which is formed where somebody needs it: once for all layers that share a DTensor, and
    once per layer for plain inputs.

    Examples
    --------
    >>> ColwiseParallel(use_local_output=False)
    ColwiseParallel(input_layouts=Replicate(), output_layouts=Shard(-1), use_local_output=False)
    """

    input_layouts: PlacementLike = _WHOLE
    output_layouts: PlacementLike = _LAST
    use_local_output: bool = True

    def apply(self, module: Module, mesh: DeviceMesh, src_data_rank: int | None) -> None:
        """Cut the weight (and the bias) of a `Linear` or `Embedding`."""
        if isinstance(module, Linear):
            place_parameter(module, "weight", mesh, Shard(0), src_data_rank)
            place_parameter(module, "bias", mesh, Shard(0), src_data_rank)
        elif isinstance(module, Embedding):
            place_parameter(module, "weight", mesh, Shard(1), src_data_rank)
        else:
            raise _unknown("ColwiseParallel", module)
        _hook(module, mesh, self, lambda module: Replicate(), lambda module: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowwiseParallel:
    """Cut the input features of a `Linear`, or the rows of an `Embedding`: outputs are sums over the ranks.

    Parameters
    ----------
    input_layouts : Placement
        How a plain input lies over the ranks; ``Shard(-1)``, if not given, as `ColwiseParallel` leaves it. An
        `Embedding` needs its indices replicated, and takes them so whatever is said here.
    output_layouts : Placement
        How the output shall lie: replicated, if not given; ``Shard(1)`` for sequence parallelism.
    use_local_output : bool
        Give this rank's part of the output as a plain tensor, and not a DTensor.

    Notes
    -----
    Forward: one all-reduce, or one reduce-scatter where the output is to be sharded. Backward: nothing, or
    one all-gather. The bias of a `Linear` is on all ranks, and is added once.
    """

    input_layouts: PlacementLike = _LAST
    output_layouts: PlacementLike = _WHOLE
    use_local_output: bool = True

    def apply(self, module: Module, mesh: DeviceMesh, src_data_rank: int | None) -> None:
        """Cut the weight of a `Linear` or `Embedding`."""
        if isinstance(module, Linear):
            place_parameter(module, "weight", mesh, Shard(1), src_data_rank)
            place_parameter(module, "bias", mesh, Replicate(), src_data_rank)
        elif isinstance(module, Embedding):
            place_parameter(module, "weight", mesh, Shard(0), src_data_rank)
        else:
            raise _unknown("RowwiseParallel", module)
        _hook(module, mesh, self, _rowwise_input, _features)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceParallel:
    """Run a `LayerNorm`, `RMSNorm` or `Dropout` on parts of the sequence; its parameters are on all ranks.

    Parameters
    ----------
    sequence_dim : int
        Which dim of the input is cut; a plain input is this rank's part of it.
    use_local_output : bool
        Give this rank's part of the output as a plain tensor, and not a DTensor.

    Notes
    -----
    Nothing moves where the input lies so already. The gradients of the parameters are sums over the ranks,
    and are formed with those of other modules at the end of backward.
    """

    sequence_dim: int = 1
    use_local_output: bool = False

    def apply(self, module: Module, mesh: DeviceMesh, src_data_rank: int | None) -> None:
        """Put the parameters of a module on all ranks."""
        for name, _ in list(module.named_parameters(recurse=False)):
            place_parameter(module, name, mesh, Replicate(), src_data_rank)
        cut = Shard(self.sequence_dim)
        name = f"the input of {type(module).__name__}"
        module.register_forward_pre_hook(
            lambda module, args: (entered(args[0], mesh, cut, cut, name), *args[1:])
        )
        local = self.use_local_output
        module.register_forward_hook(lambda module, args, output: left(output, None, local))


def _hook(
    module: Module,
    mesh: DeviceMesh,
    style: ColwiseParallel | RowwiseParallel,
    wanted: Callable[[Module], Placement],
    features: Callable[[Module], int | None],
) -> None:
    """Bring the input of a module to where it is `wanted`, and its output to where the style says."""
    given, after = as_placement(style.input_layouts), as_placement(style.output_layouts)
    name = f"the input of {type(module).__name__}"

    def before(module: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if not args:
            return args
        first, place = args[0], wanted(module)
        before = place if isinstance(module, Embedding) and isinstance(style, RowwiseParallel) else given
        size = features(module)
        whole = None
        if size is not None and isinstance(before, Shard) and before.dim in (-1, first.ndim - 1):
            whole = (*first.shape[:-1], size)  # known from the weight: parts of any size need not be asked
        return (entered(first, mesh, before, place, name, whole), *args[1:])

    module.register_forward_pre_hook(before)
    local = style.use_local_output
    module.register_forward_hook(lambda module, args, output: left(output, after, local))


def _rowwise_input(module: Module) -> Placement:
    """Return how a module whose input features are cut needs its input."""
    return Replicate() if isinstance(module, Embedding) else Shard(-1)


def _features(module: Module) -> int | None:
    """Return how many input features the whole of a `Linear` has."""
    return module.in_features if isinstance(module, Linear) else None


def _unknown(style: str, module: Module) -> ModuleError:
    return ModuleError(
        f"{style} is for Linear and Embedding, and got a {type(module).__name__}; for other modules use "
        "SequenceParallel or PrepareModuleInput, or distribute their parameters yourself"
    )
