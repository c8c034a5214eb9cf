"""`PipelineStage`: a part of a model, and the microbatches that are on their way through it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ScheduleError
from shardwise.backend.shape import ShapeArray
from shardwise.nn import Module
from shardwise.tensor import Tensor, random
from shardwise.tensor.autograd import WeightGradients, backward, backward_inputs
from shardwise.tensor.mode import enable_grad, is_grad_enabled
from shardwise.tensor.recompute import recompute
from shardwise.tensor.tree import TreeDef, tree_flatten, tree_unflatten

__all__ = ["Meta", "PipelineStage", "Sharded", "Value"]


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known of a tensor that crosses between stages before it is there."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    requires_grad: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Meta:
        """Return what is known of a tensor."""
        return cls(tuple(tensor.shape), tensor.dtype, tensor.requires_grad)


@dataclass(frozen=True, slots=True)
class Value:
    """What a stage gives for one microbatch: tensors, and how they are nested."""

    metas: tuple[Meta, ...]
    tree: TreeDef


class Sharded(Protocol):
    """Who holds a stage's parameters in parts: told when to gather, drop and reduce them."""

    def unshard(self) -> None:
        """Gather the parameters."""

    def reshard(self) -> None:
        """Drop what others hold."""

    def reduce_grad(self) -> None:
        """Reduce the gradients, which are complete."""


@dataclass(slots=True)
class _Live:
    """A microbatch between its forward and its last backward."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    weights: WeightGradients | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class PipelineStage:
    """A part of a model.

    Parameters
    ----------
    submodule : Module
        Takes what the stage before gives, as positional arguments, and keyword arguments of its own.
    stage_index : int
    num_stages : int
        Of the whole model.
    device : str, optional
        Where it computes; taken for PyTorch's sake, since a module knows where it is.
    checkpoint : bool
        Keep only what was received of each microbatch, and run its forward again, once, for its backward.
    sharded : Sharded, optional
        Told of UNSHARD, RESHARD and REDUCE_GRAD.

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
        *,
        checkpoint: bool = False,
        sharded: Sharded | None = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ScheduleError(
                f"there is no stage {stage_index} among {num_stages}; count from 0 to {num_stages - 1}"
            )
        self.submodule = submodule
        self.stage_index = stage_index
        self.num_stages = num_stages
        self.device = device
        self.checkpoint = checkpoint
        self.sharded = sharded
        self._live: dict[int, _Live] = {}

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

    def infer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Value, bool]:
        """Return what the stage gives, and whether it draws random bits; nothing is computed.

        Parameters
        ----------
        args, kwargs
            With tensors over arrays without data.
        """
        drawn = random.Scope(self.submodule.module_paths, None)
        with random.replay(random.snapshot()), _without_data(self.submodule), random.enter(drawn):
            result = self.submodule(*args, **kwargs)
        leaves, tree = self.checked(result)
        return Value(tuple(map(Meta.of, leaves)), tree), drawn.number is not None

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
        if self.checkpoint and is_grad_enabled():
            result = recompute(self.submodule, *args, **kwargs)
        else:
            result = self.submodule(*args, **kwargs)
        if is_grad_enabled():
            self._live[microbatch] = _Live([each for each in received if each.requires_grad], [])
        return result

    def leave(self, microbatch: int, outputs: Sequence[Tensor]) -> None:
        """Say from which tensors the backward of a microbatch will start."""
        self._live[microbatch].outputs = [each for each in outputs if each.requires_grad]

    def backward_input(self, microbatch: int, gradients: Sequence[Any]) -> list[Array | None]:
        """Return the gradients of what was received; those of the weights are left for later."""
        live = self._live[microbatch]
        if not live.outputs:
            return [None] * len(live.inputs)
        found, live.weights = backward_inputs(live.outputs, gradients, live.inputs)
        live.outputs = []
        return [None if each is None else each.data for each in found]

    def backward_weight(self, microbatch: int) -> None:
        """Add up the gradients of the weights that `backward_input` left."""
        live = self._live.pop(microbatch)
        if live.weights is not None:
            live.weights.run()

    def backward(self, microbatch: int, gradients: Sequence[Any]) -> list[Array | None]:
        """Do both at once, and keep nothing in between."""
        live = self._live.pop(microbatch)
        if live.outputs:
            backward(live.outputs, gradients)
        return [None if each.grad is None else each.grad.data for each in live.inputs]

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
            empty: Any = ShapeArray(data.shape, data.dtype)
            tensor.data = empty
        with enable_grad():
            yield
    finally:
        for tensor, data in held:
            tensor.data = data
