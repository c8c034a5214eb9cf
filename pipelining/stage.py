"""`PipelineStage`: a part of a model, and the microbatches that are on their way through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from shardwise.backend.errors import ScheduleError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives import ProcessGroup
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.mesh import DeviceMesh
from shardwise.nn import Module
from shardwise.pipelining.meta import Meta, Value, differences
from shardwise.pipelining.skip import Box, carrying
from shardwise.tensor import Tensor, random
from shardwise.tensor.autograd import WeightGradients, backward, backward_inputs
from shardwise.tensor.mode import enable_grad, is_grad_enabled
from shardwise.tensor.recompute import Rerun, checkpointed
from shardwise.tensor.tree import TreeDef, tree_flatten, tree_unflatten

__all__ = ["PipelineStage", "Sharded", "emptied"]


class Sharded(Protocol):
    """Who holds a stage's parameters in parts, or has replicas of them elsewhere.

    What a step does to it: ``unshard`` and ``reshard`` in turns, as often as the program says;
    ``reduce_grad`` once, behind the last backward of the stage; ``finish`` at the end of the step, for each
    stage of a rank in their order. All ranks that share the stage are called alike.
    """

    def unshard(self) -> None:
        """Gather the parameters."""

    def reshard(self) -> None:
        """Drop what others hold."""

    def reduce_grad(self) -> None:
        """Begin to reduce the gradients, which are complete."""

    def finish(self) -> None:
        """Have the gradients reduced."""


@dataclass(slots=True)
class _Live:
    """A microbatch between its forward and its last backward."""

    inputs: list[Tensor]
    outputs: list[Tensor] = field(default_factory=list)
    weights: WeightGradients | None = None
    again: Rerun | None = None


class PipelineStage:
    """A part of a model.

    Parameters
    ----------
    submodule : Module
        Takes what the stage before gives, as positional arguments, and keyword arguments of its own. Values
        go past stages by `stash` and `fetch`.
    stage_index : int
    num_stages : int
        Of the whole model.
    device : str, optional
        Where it computes; taken for PyTorch's sake, since a module knows where it is.
    input_args, output_args : tensor, or sequence of tensors, optional
        With the shapes and dtypes of one microbatch, compared with what comes and goes before the first step.
    group : ProcessGroup, optional
        Of the ranks of the pipeline, for schedules that are made of stages; the world, if not given.
    checkpoint : bool
        Keep only what was received of each microbatch, and run its forward again, once, for its backward.
    sharded : Sharded, optional
        Told of UNSHARD, RESHARD and REDUCE_GRAD.
    mesh : DeviceMesh, optional
        On which DTensors that it receives lie.

    Raises
    ------
    ScheduleError
        There is no such stage.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: str | None = None,
        input_args: Any = None,
        output_args: Any = None,
        group: ProcessGroup | None = None,
        *,
        checkpoint: bool = False,
        sharded: Sharded | None = None,
        mesh: DeviceMesh | None = None,
    ) -> None:
        if not isinstance(submodule, Module):
            raise ScheduleError(
                f"stage {stage_index}: submodule must be a Module, got {type(submodule).__name__}"
            )
        if not 0 <= stage_index < num_stages:
            raise ScheduleError(
                f"there is no stage {stage_index} among {num_stages}; count from 0 to {num_stages - 1}"
            )
        self.submodule = submodule
        self.stage_index = stage_index
        self.num_stages = num_stages
        self.device = device
        self.input_args, self.output_args = input_args, output_args
        self.group = group
        self.checkpoint = checkpoint
        self.sharded = sharded
        self.mesh = mesh
        self._live: dict[int, _Live] = {}

    @property
    def module(self) -> Module:
        """The module that runs: what a wrapper that only reduces gradients has inside."""
        inner = getattr(self.submodule, "module", None)
        return inner if self.submodule.transparent and isinstance(inner, Module) else self.submodule

    @property
    def is_first(self) -> bool:
        """Whether it takes the model's arguments."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it gives the model's results."""
        return self.stage_index == self.num_stages - 1

    @property
    def live(self) -> tuple[int, ...]:
        """The microbatches between forward and last backward."""
        return tuple(self._live)

    def forget(self) -> None:
        """Drop all microbatches: after a step that failed."""
        self._live.clear()

    # ---- without data

    def infer(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], incoming: Mapping[str, Tensor]
    ) -> tuple[Value, bool]:
        """Return what the stage gives, and whether it draws random bits; nothing is computed.

        Parameters
        ----------
        args, kwargs, incoming
            With tensors over arrays without data.
        """
        drawn = random.Scope(self.module.module_paths, None)
        box = Box(incoming)
        unseen = random.replay(random.snapshot())
        with unseen, _without_data(self.submodule), random.enter(drawn), carrying(box):
            result = self.module(*args, **kwargs)
        leaves, tree = self.checked(result)
        metas = tuple(map(Meta.of, leaves))
        self._compare(
            "input_args", self.input_args, tuple([Meta.of(a) for a in args if isinstance(a, Tensor)])
        )
        self._compare("output_args", self.output_args, metas)
        stashed = {name: Meta.of(value) for name, value in box.left.items()}
        return Value(metas, tree, stashed, tuple(sorted(box.taken))), drawn.number is not None

    def _compare(self, name: str, declared: Any, metas: tuple[Meta, ...]) -> None:
        if declared is None:
            return
        wanted = tree_flatten(declared)[0]
        found = differences(wanted, metas)
        if found:
            raise ScheduleError(
                f"stage {self.stage_index}: {name} says otherwise than what comes: {found}. Correct it, or "
                "leave it out"
            )

    def checked(self, result: Any) -> tuple[list[Tensor], TreeDef]:
        """Take a result apart; only tensors cross between stages.

        Raises
        ------
        ScheduleError
            There is something else in it.
        """
        leaves, tree = tree_flatten(result)
        for i, leaf in enumerate(leaves):
            if not isinstance(leaf, Tensor):
                raise ScheduleError(
                    f"stage {self.stage_index} gives a {type(leaf).__name__} as result {i}; only tensors "
                    "cross between stages. Compute it where it is needed, or give it to each stage as a "
                    "keyword argument"
                )
        return leaves, tree

    # ---- one microbatch

    def forward(
        self, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any], received: Sequence[Tensor]
    ) -> Any:
        """Run a microbatch; `received` are the tensors whose gradients will be asked for."""
        if microbatch in self._live:
            raise ScheduleError(f"stage {self.stage_index} is to run microbatch {microbatch} a second time")
        if not is_grad_enabled():
            return self.module(*args, **kwargs)
        live = _Live([each for each in received if each.requires_grad])
        if self.checkpoint:
            result, live.again = checkpointed(self.module, *args, **kwargs)
        else:
            result = self.module(*args, **kwargs)
        self._live[microbatch] = live
        return result

    def leave(self, microbatch: int, outputs: Sequence[Tensor]) -> None:
        """Say from which tensors the backward of a microbatch will start."""
        self._live[microbatch].outputs = [each for each in outputs if each.requires_grad]

    def recompute(self, microbatch: int) -> None:
        """Run a checkpointed forward again, now rather than when the backward asks for it."""
        again = self._live[microbatch].again
        if again is not None:
            again()

    def backward_input(self, microbatch: int, gradients: Sequence[Any]) -> list[Any]:
        """Return the gradients of what was received; those of the weights are left for later."""
        live = self._live[microbatch]
        if not live.outputs:
            return [None] * len(live.inputs)
        found, live.weights = backward_inputs(live.outputs, gradients, live.inputs)
        live.inputs, live.outputs = [], []
        return list(found)

    def backward_weight(self, microbatch: int, last: bool = True) -> None:
        """Add up the gradients of the weights that `backward_input` left.

        Parameters
        ----------
        microbatch : int
        last : bool
            Whether no other backward of this stage comes in this step.
        """
        live = self._live.pop(microbatch)
        if live.weights is not None:
            with self._syncing(last):
                live.weights.run()

    def backward(self, microbatch: int, gradients: Sequence[Any], last: bool = True) -> list[Any]:
        """Do both at once, and keep nothing in between."""
        live = self._live.pop(microbatch)
        if live.outputs:
            with self._syncing(last):
                backward(live.outputs, gradients)
        return [each.grad for each in live.inputs]

    def _syncing(self, last: bool) -> AbstractContextManager[None]:
        """Let a module that reduces its own gradients do so in the last backward of a step alone."""
        submodule: Any = self.submodule
        return nullcontext() if last or not hasattr(submodule, "no_sync") else submodule.no_sync()

    def put_together(self, value: Value, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """Return what the stage before gave as the positional arguments of this one."""
        result = tree_unflatten(value.tree, list(tensors))
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)


@contextmanager
def _without_data(module: Module) -> Iterator[None]:
    """Run a block with arrays without data in place of a module's parameters and buffers."""
    held = [(tensor, tensor.data) for tensor in (*module.parameters(), *module.buffers())]
    try:
        for tensor, data in held:
            tensor.data = emptied(data)
        with enable_grad():
            yield
    finally:
        for tensor, data in held:
            tensor.data = data


def emptied(data: Any) -> Any:
    """Return an array of the same shape, dtype and layout without data."""
    if isinstance(data, ShardedArray):
        return ShardedArray(emptied(data.local), data.layout)
    return ShapeArray(data.shape, data.dtype)
