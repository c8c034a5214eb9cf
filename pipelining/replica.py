"""Copies of a stage on several ranks: of schedules with two replicas, and of data parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives import ProcessGroup, Work, all_reduce_coalesced, broadcast_coalesced, implicit
from shardwise.nn import Module
from shardwise.pipelining.meta import part_of
from shardwise.pipelining.stage import PipelineStage
from shardwise.tensor import Tensor

__all__ = ["DataParallel", "Replicas", "copy_from_first"]


def copy_from_first(module: Module, group: ProcessGroup) -> None:
    """Take over the parameters and buffers of the group's first rank."""
    tensors = [*module.parameters(), *module.buffers()]
    if group.size == 1 or not tensors:
        return
    parts = [part_of(tensor) for tensor in tensors]
    with implicit():
        found = broadcast_coalesced(parts, group.ranks[0], group)
    for tensor, part, new in zip(tensors, parts, found, strict=True):
        if new is not part:
            part[...] = new
        tensor.version.count += 1


def _gradients(parameters: Sequence[Tensor]) -> list[Array]:
    """Return this rank's parts of the gradients, zeros where there is none yet."""
    found = []
    for parameter in parameters:
        if parameter.grad is None:
            data: Any = np.zeros_like(parameter.data)
            parameter.grad = parameter.wrap(data)
        found.append(part_of(parameter.grad))
    return found


class DataParallel:
    """A stage whose gradients are averaged over a group, once per step, while other stages still run.

    Parameters
    ----------
    stage : PipelineStage
        With the same parameters on all ranks of the group, which take over those of its first rank.
    group : ProcessGroup
        Ranks that hold this stage for other parts of the batch.

    Notes
    -----
    One broadcast at the start; one all-reduce per step and dtype for all small gradients of the stage, and
    one for each large one. Parameters without a gradient count as zero.
    """

    def __init__(self, stage: PipelineStage, group: ProcessGroup) -> None:
        self._stage, self._group = stage, group
        self._work: Work[list[Array]] | None = None
        copy_from_first(stage.submodule, group)

    def unshard(self) -> None:
        """Do nothing: parameters are whole."""

    def reshard(self) -> None:
        """Do nothing: parameters stay whole."""

    def reduce_grad(self) -> None:
        """Begin to average the gradients."""
        gradients = _gradients([p for p in self._stage.submodule.parameters() if p.requires_grad])
        if gradients and self._group.size > 1:
            with implicit():
                self._work = all_reduce_coalesced(gradients, "avg", self._group, out=gradients, async_op=True)

    def finish(self) -> None:
        """Have the gradients averaged."""
        work, self._work = self._work, None
        if work is not None:
            work.wait()


class Replicas:
    """A stage that several ranks of one pipeline hold, each for some of the microbatches.

    Parameters
    ----------
    stage : PipelineStage
    group : ProcessGroup
        The ranks that hold it, which take over the parameters of the first of them.

    Notes
    -----
    Gradients of all replicas are added up at the end of each step.
    """

    def __init__(self, stage: PipelineStage, group: ProcessGroup) -> None:
        self._stage, self._group = stage, group
        self._before: dict[int, Tensor] = {}
        copy_from_first(stage.submodule, group)

    def _learned(self) -> list[Tensor]:
        return [p for p in self._stage.submodule.parameters() if p.requires_grad]

    def set_aside(self) -> None:
        """Take away the gradients of earlier steps, which are added up already."""
        self._before = {}
        for i, parameter in enumerate(self._learned()):
            if parameter.grad is not None:
                self._before[i], parameter.grad = parameter.grad, None

    def add_up(self) -> None:
        """Give all replicas the sum of their gradients of this step, and those of earlier ones."""
        learned = self._learned()
        gradients = _gradients(learned)
        with implicit():
            summed = all_reduce_coalesced(gradients, "sum", self._group, out=gradients)
        for i, (parameter, gradient) in enumerate(zip(learned, summed, strict=True)):
            if i in self._before:
                before = part_of(self._before[i])
                before += gradient
                parameter.grad = self._before[i]
        self._before = {}
