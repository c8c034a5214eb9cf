"""`Pipeline`: a program and this rank's stages; `step` runs one batch through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from shardwise.backend.errors import ScheduleError
from shardwise.collectives import rank, world_size
from shardwise.pipelining.checker.check import require_valid
from shardwise.pipelining.execution import Execution
from shardwise.pipelining.handshake import Agreement, agree, shared_signature, signature
from shardwise.pipelining.lowering import lower
from shardwise.pipelining.microbatch import merge, rows, split
from shardwise.pipelining.program import Program
from shardwise.pipelining.stage import PipelineStage
from shardwise.pipelining.tied import Tied
from shardwise.tensor import Tensor, random

__all__ = ["Pipeline"]


class Pipeline:
    """Runs batches through a pipeline of stages on several ranks.

    Parameters
    ----------
    program : Program
        Of computing actions, or lowered.
    stages : sequence of PipelineStage
        Those of this rank.
    loss_fn : callable, optional
        ``loss_fn(output, target)`` gives a tensor without dims.
    loss_reduction : "mean" or "sum"
        Whether losses of microbatches count by their rows, or each in full.
    ranks : sequence of int, optional
        Global rank of each place in the pipeline; 0 to p - 1, if not given.
    tied : sequence of Tied, optional
        Parameters that several stages share: made equal at the start, their gradients added up in each step.
    args_spec, kwargs_spec, target_spec, output_spec : optional
        See `microbatch`.
    """

    def __init__(
        self,
        program: Program,
        stages: Sequence[PipelineStage],
        *,
        loss_fn: Callable[[Any, Any], Tensor] | None = None,
        loss_reduction: Literal["mean", "sum"] = "mean",
        ranks: Sequence[int] | None = None,
        tied: Sequence[Tied] = (),
        args_spec: Any = None,
        kwargs_spec: Any = None,
        target_spec: Any = None,
        output_spec: Any = None,
    ) -> None:
        require_valid(program)  # before anything moves, and alike on all ranks
        self.program = program
        self.lowered = program if program.is_lowered else lower(program)
        self.placement = program.placement
        self.ranks = tuple(range(len(program)) if ranks is None else ranks)
        if len(self.ranks) != len(program) or max(self.ranks) >= world_size():
            raise ScheduleError(
                f"the program is for {len(program)} ranks, and the world has {world_size()}: "
                f"ranks={list(self.ranks)}"
            )
        if rank() not in self.ranks:
            raise ScheduleError(f"rank {rank()} has no place in this pipeline of ranks {list(self.ranks)}")
        self.place = self.ranks.index(rank())
        self.stages = {stage.stage_index: stage for stage in stages}
        wanted = [stage for stage, owner in self.placement.items() if owner == self.place]
        if sorted(self.stages) != wanted or any(s.num_stages != program.stages for s in stages):
            raise ScheduleError(
                f"rank {rank()}: the program puts stages {wanted} of {program.stages} here, and got "
                f"{[(s.stage_index, s.num_stages) for s in stages]}"
            )
        self.loss_fn, self.loss_reduction = loss_fn, loss_reduction
        self.specs = (args_spec, kwargs_spec, target_spec, output_spec)
        self.tied = tuple(tied)
        for each in self.tied:
            each.begin(self.stages, self.placement, self.ranks)
        self._agreed: dict[Any, Agreement] = {}
        self._evaluation = lower(_forwards(program))

    @property
    def has_first(self) -> bool:
        """Whether this rank takes the model's arguments."""
        return 0 in self.stages

    @property
    def has_last(self) -> bool:
        """Whether this rank has the results and the losses."""
        return self.program.stages - 1 in self.stages

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Tensor] | None = None,
        return_outputs: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Run one batch forward and backward; gradients add up in the parameters.

        Parameters
        ----------
        *args
            Of the model; on the rank of the first stage only.
        target
            On the rank of the last stage only.
        losses : list, optional
            Filled with the losses of the microbatches, in their order, on the rank of the last stage.
        return_outputs : bool
            Return the results on the rank of the last stage; they take memory.
        **kwargs
            Of this rank's own stages.
        """
        execution = self._execute(self.lowered, args, kwargs, target, True)
        if losses is not None:
            losses[:] = [execution.losses[i] for i in sorted(execution.losses)]
        if return_outputs and self.has_last:
            return merge([execution.outputs[i] for i in sorted(execution.outputs)], self.specs[3])
        return None

    def eval(self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, **kwargs: Any) -> Any:
        """Run one batch forward, without tape; return the results on the rank of the last stage."""
        execution = self._execute(self._evaluation, args, kwargs, target, False)
        if losses is not None:
            losses[:] = [execution.losses[i] for i in sorted(execution.losses)]
        return (
            merge([execution.outputs[i] for i in sorted(execution.outputs)], self.specs[3])
            if self.has_last
            else None
        )

    def _execute(
        self, lowered: Program, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, train: bool
    ) -> Execution:
        count = self.program.microbatches
        chunks = split(args, count, "argument", self.specs[0]) if self.has_first else None
        named = split(kwargs, count, "keyword argument", self.specs[1])
        targets = (
            split(target, count, "target", self.specs[2]) if self.has_last and target is not None else None
        )
        # Only the rank of the first stage sees the shapes of a batch, so all must learn that they are others.
        key = (train, shared_signature(signature((*(chunks or ()), *named)), self.ranks))
        if key not in self._agreed:
            self._agreed[key] = agree(self.stages, self.placement, self.ranks, chunks, named)
        values, draws = self._agreed[key]
        execution = Execution(
            lowered.ranks[self.place], self.stages, self.placement, self.ranks, values,
            args=chunks, kwargs=named, loss=self.loss_fn, targets=targets,
            weights=self._weights(targets, count), windows=self._windows(values, count),
            train=train, draw=random.next_forward() if draws else None,
        )  # fmt: skip
        aside = [each.set_aside(self.stages) if train else None for each in self.tied]
        try:
            execution.run()
            if train:
                for each, before in zip(self.tied, aside, strict=True):
                    each.add_up(self.stages, self.placement, self.ranks, before)
        except BaseException:
            for stage in self.stages.values():
                stage.forget()
            raise
        return execution

    def _weights(self, targets: Sequence[Any] | None, count: int) -> list[float]:
        if targets is None or self.loss_reduction == "sum":
            return [1.0] * count
        sizes = [rows(target) for target in targets]
        return [size / sum(sizes) for size in sizes]

    def _windows(self, values: Any, count: int) -> list[tuple[int, int]]:
        """Return which rows of the batch each microbatch holds."""
        stage = min(stage for stage, _ in values)
        sizes = [
            values[stage, i].metas[0].shape[0] if values[stage, i].metas[0].shape else 1 for i in range(count)
        ]
        return [(sum(sizes[:i]), size) for i, size in enumerate(sizes)]


def _forwards(program: Program) -> Program:
    """Return a program's forwards alone, in their order."""
    return Program.of(
        [[part for action in actions for part in action.compute if part.kind == "F"] for actions in program]
    )
