"""`Pipe`: a model that was split into stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwise.backend.errors import ScheduleError
from shardwise.collectives import ProcessGroup
from shardwise.nn import Module
from shardwise.pipelining.absent import copy_keeping
from shardwise.pipelining.arguments import Arguments
from shardwise.pipelining.blueprint import Blueprint
from shardwise.pipelining.comparison import Comparison, compare
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.cut import Part
from shardwise.pipelining.information import PipeInfo, SkipValue, describe
from shardwise.pipelining.marker import watch
from shardwise.pipelining.materialization import Initializer, materialize
from shardwise.pipelining.part import StageModule
from shardwise.pipelining.stage import PipelineStage
from shardwise.pipelining.tied import Tied
from shardwise.tensor import Tensor

__all__ = ["Pipe", "build_stage"]


class Pipe:
    """A model that was split into stages; `pipeline` makes it.

    Parameters
    ----------
    model : Module
    blueprint : Blueprint
        Of the same model, with its cuts.
    arguments : Arguments
        Those that the model was split with.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> from shardwise.pipelining import SplitPoint, pipeline
    >>> model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    >>> pipe = pipeline(model, (sw.zeros(4, 8),), split_spec={"1": SplitPoint.BEGINNING})
    >>> print(pipe)
    stage  modules  parameters  activations  forward     in     out
    0      0        1.1 KiB     128 B        2.05 kFLOP  0 B    512 B
    1      1-2      1.0 KiB     1.0 KiB      2.18 kFLOP  512 B  0 B
    >>> [name for name, _ in pipe.get_stage_module(1).named_parameters()]
    ['2.weight', '2.bias']
    """

    def __init__(self, model: Module, blueprint: Blueprint, arguments: Arguments) -> None:
        self.model = model
        self.arguments = arguments
        self._blueprint = blueprint
        self._training = tuple([module.training for module in model.modules()])
        self._parts = blueprint.parts(arguments, self._training)
        self._modules: dict[int, StageModule] = {}
        self._holders = self._find_holders()
        self._info = describe(self._parts, model, self.tied)

    # ---- what there is

    @property
    def num_stages(self) -> int:
        """Number of stages."""
        return len(self._parts)

    @property
    def tied(self) -> tuple[Tied, ...]:
        """The parameters that several stages hold: for the schedule, which adds up their gradients."""
        named = dict(self.model.named_parameters())
        return tuple(
            [
                Tied(tuple([(stage, self._names_in(name, stage)[0]) for stage in stages]))
                for name, stages in self._holders.items()
                if len(stages) > 1 and name in named
            ]
        )

    @property
    def skips(self) -> tuple[SkipValue, ...]:
        """The tensors that stages behind the next one need."""
        return self._info.skips

    def info(self) -> PipeInfo:
        """Return what each stage runs, holds and sends; `print` shows it."""
        return self._info

    def costs(self, flops_per_second: float = 1.0, bytes_per_second: float | None = None) -> Costs:
        """Return what the stages take; see `PipeInfo.costs`."""
        return self._info.costs(flops_per_second, bytes_per_second)

    def __str__(self) -> str:
        return str(self._info)

    def __repr__(self) -> str:
        return f"Pipe({type(self.model).__name__}, num_stages={self.num_stages})"

    # ---- stages

    def get_stage_module(self, index: int) -> Module:
        """Return a stage as a module, whose parameters are those of the model, under their names there.

        Raises
        ------
        ScheduleError
            There is no such stage.
        """
        if not 0 <= index < self.num_stages:
            raise ScheduleError(f"there is no stage {index} among {self.num_stages}")
        if index not in self._modules:
            self._modules[index] = self._make(self._parts[index])
        return self._modules[index]

    def build_stage(
        self,
        index: int,
        device: str | None = None,
        group: ProcessGroup | None = None,
        *,
        checkpoint: bool = False,
        init: Initializer | None = None,
    ) -> PipelineStage:
        """Return a stage that a schedule can run, with values in all that it holds.

        Parameters
        ----------
        index : int
        device : str, optional
            Where to; where the model is, if not given.
        group : ProcessGroup, optional
            Of the ranks of the pipeline; the world, if not given.
        checkpoint : bool
            Keep only what was received of each microbatch, and run its forward again.
        init : callable, optional
            ``init(name, tensor)`` fills a parameter or buffer of a model that was made on device "shape". If
            it is not given, modules' own ``reset_parameters`` does, with random bits that depend on the seed
            and the module's path, so that they are the same for any number of stages.

        Raises
        ------
        ScheduleError
            There is no such stage, or no first values for something in it.
        """
        module = self.get_stage_module(index)
        materialize(module, device or self._blueprint.device, init)
        if device is not None:
            module.to(device)
        return PipelineStage(module, index, self.num_stages, device, group=group, checkpoint=checkpoint)

    def check(self, *args: Any, rtol: float = 1e-6, **kwargs: Any) -> Comparison:
        """Run all stages here, one behind the other, and compare with the model in one piece.

        Parameters
        ----------
        *args, **kwargs
            Of the model.
        rtol : float
            By how much a result, a gradient or a buffer may differ, relative to the largest one in its array.

        Returns
        -------
        Comparison
            The largest differences; prints as a table.

        Raises
        ------
        ScheduleError
            Something differs by more: its name, and by how much.

        Notes
        -----
        Results are given random gradients. Parameters, gradients, buffers and the random streams are as they
        were when it returns.
        """
        stages: Sequence[Module] = [self.get_stage_module(i) for i in range(self.num_stages)]
        return compare(self.model, stages, args, kwargs, rtol)

    def _make(self, part: Part) -> StageModule:
        kept = {id(tensor) for name, tensor in self._state().items() if name in part.state}
        root = copy_keeping(self.model, kept, self._blueprint.device)
        split = [each.rpartition(".") for name in part.state for each in self._names_in(name, part.index)]
        shown = {(id(root.get_submodule(path)), name) for path, _, name in split}
        for module in root.modules():
            for name in [n for n, _ in module.named_parameters(recurse=False, remove_duplicate=False)]:
                if (id(module), name) not in shown and id(module.get_parameter(name)) in kept:
                    _hide(module, name)
        watch(root)
        summary = ", ".join(self._info.stages[part.index].modules)
        return StageModule(self._blueprint, part.index, root, self.num_stages, summary)

    def _state(self) -> dict[str, Tensor]:
        return {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}

    def _find_holders(self) -> dict[str, list[int]]:
        """Return the stages that hold each parameter and buffer."""
        return {name: [p.index for p in self._parts if name in p.state] for name in self._state()}

    def _names_in(self, name: str, stage: int) -> list[str]:
        """Return the names under which a stage shows what it holds: of modules that it calls, or one."""
        state = self._state()
        names = [
            each
            for each, tensor in (
                *self.model.named_parameters(remove_duplicate=False),
                *self.model.named_buffers(remove_duplicate=False),
            )
            if tensor is state[name]
        ]
        part = self._parts[stage]
        called = {call.id.path for call in part.trace.calls.values() if part.owns(call.enter)}
        return [each for each in names if each.rpartition(".")[0] in called] or names[:1]


def build_stage(
    stage_module: Module,
    stage_index: int,
    pipe_info: PipeInfo,
    device: str | None = None,
    group: ProcessGroup | None = None,
) -> PipelineStage:
    """Return a stage of a module that `Pipe.get_stage_module` gave, and that was changed since.

    Parameters
    ----------
    stage_module : Module
        The stage's module, or one around it, such as one that reduces gradients over other ranks.
    stage_index : int
    pipe_info : PipeInfo
        What `Pipe.info` returns.
    device : str, optional
    group : ProcessGroup, optional
        Of the ranks of the pipeline; the world, if not given.
    """
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)


def _hide(module: Module, name: str) -> None:
    """Leave a tied parameter an attribute of a module of another stage, and no more than that."""
    parameter = module.get_parameter(name)
    delattr(module, name)
    object.__setattr__(module, name, parameter)
