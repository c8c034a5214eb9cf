"""`Pipeline`: a program and this rank's stages; `step` runs one batch through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.errors import ScheduleError
from shardwise.collectives import (
    ProcessGroup,
    all_reduce,
    get_group,
    implicit,
    rank,
)
from shardwise.pipelining.agreement import Agreement
from shardwise.pipelining.batch import Batch, Reduction, cut, weights_of, windows_of
from shardwise.pipelining.checker.check import require_valid
from shardwise.pipelining.device_link import DeviceLink, directed_edges
from shardwise.pipelining.edge import Edges, HostLink, Route, route
from shardwise.pipelining.execution import Execution
from shardwise.pipelining.handshake import agree, shared_signature, signature
from shardwise.pipelining.lowering import lower
from shardwise.pipelining.measured import measured
from shardwise.pipelining.microbatch import merge
from shardwise.pipelining.need import Skips
from shardwise.pipelining.opening import checked_ranks, compare_stages, made_equal, on_device, part_of_batch
from shardwise.pipelining.program import Program
from shardwise.pipelining.recording import Recording
from shardwise.pipelining.simulation import Simulation
from shardwise.pipelining.stage import PipelineStage
from shardwise.pipelining.tied import Tied
from shardwise.tensor import Tensor, random
from shardwise.tensor.mode import is_grad_enabled

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
        ``loss_fn(output, target)`` gives a tensor with one element.
    loss_reduction : "mean", "sum" or callable
        Whether losses of microbatches count by their rows, each in full, or by ``f(target)``, as by the
        valid tokens of a target.
    ranks : sequence of int, optional
        Global rank of each place in the pipeline; 0 to p - 1, if not given.
    tied : sequence of Tied, optional
        Parameters that several stages share: made equal at the start, their gradients added up in each step.
    replicas : int
        Ranks that hold the same stage: 2 for DualPipe. They are made equal at the start, their gradients
        added up in each step; arguments and targets are given, whole, to each rank with a first or last
        stage.
    data_parallel : ProcessGroup, optional
        Ranks that run the same stages on other parts of the batch, all as large: gradients are averaged over
        them, those of a stage as soon as they are complete. Stages in a `DistributedDataParallel` need none:
        they average in their last backward of a step.
    max_active_stages : int, optional
        Tell `Sharded` of stages to gather so many at once, and to drop others.
    broadcast_losses : bool
        Fill `losses` on all ranks, not on that of the last stage alone.
    args_spec, kwargs_spec, target_spec, output_spec : optional
        See `microbatch`.

    Raises
    ------
    ScheduleError
        The program is wrong, or on some rank the stages are not those that it puts there: on all ranks.

    Notes
    -----
    Construction compares programs and stages over the ranks. A step begins with sixteen bytes from each rank
    to all, which tell whether the batch has another size than those before.
    """

    def __init__(
        self,
        program: Program,
        stages: Sequence[PipelineStage],
        *,
        loss_fn: Callable[[Any, Any], Tensor] | None = None,
        loss_reduction: Reduction = "mean",
        ranks: Sequence[int] | None = None,
        tied: Sequence[Tied] = (),
        replicas: int = 1,
        data_parallel: ProcessGroup | None = None,
        max_active_stages: int | None = None,
        broadcast_losses: bool = False,
        args_spec: Any = None,
        kwargs_spec: Any = None,
        target_spec: Any = None,
        output_spec: Any = None,
    ) -> None:
        require_valid(program, replicas=replicas)  # before anything moves, and alike on all ranks
        self.program = program
        self.placement = program.placement
        self.ranks = checked_ranks(program, ranks)
        self.place = self.ranks.index(rank())
        self.group = get_group(tuple(sorted(self.ranks)))
        self.stages = {stage.stage_index: stage for stage in stages}
        self._sharded, devices = compare_stages(program, stages, self.place, self.group)
        self.loss_fn, self.loss_reduction = loss_fn, loss_reduction
        self.specs = (args_spec, kwargs_spec, target_spec, output_spec)
        self.broadcast_losses, self.data_parallel = broadcast_losses, data_parallel
        self.max_active_stages = max_active_stages
        self.tied = tuple(tied)
        self._replicas = made_equal(program, self.stages, self.ranks, data_parallel)
        for each in self.tied:
            each.begin(self.stages, self.placement, self.ranks)
        self.lowered = program if program.has_transfers else self._lowered(program, {})
        self._agreed: dict[Any, tuple[Agreement, Program, Route]] = {}
        like = on_device(stages) if devices else None
        self._link: HostLink | DeviceLink = HostLink() if like is None else DeviceLink(rank(), like)
        self._recording: Recording | None = None

    def _lowered(self, program: Program, skips: Skips) -> Program:
        reduces = self._sharded or self.data_parallel is not None
        if not program.has_transfers:
            told = any(a.kind in ("UNSHARD", "REDUCE_GRAD") for actions in program for a in actions)
            trains = any(p.kind != "F" for actions in program for a in actions for p in a.compute)
            return lower(
                program, None if told else self.max_active_stages, reduces and trains and not told, skips
            )
        wanted = lower(_computed(program), skips=skips).skips
        if program.skips != wanted:
            raise ScheduleError(
                f"the program sends skip values {dict(program.skips)}, and stages stash and fetch "
                f"{dict(wanted)} (from stage: to stages); write the transfers for them, or let lower() do it"
            )
        return program

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

        Raises
        ------
        RuntimeError
            Gradients are switched off.
        ScheduleError
            The arguments of a rank do not fit, or a stage cannot run on their shapes: on all ranks.
        """
        if not is_grad_enabled():
            raise RuntimeError(
                "step() computes gradients, and they are switched off; call eval() to do without"
            )
        execution = self._execute(args, kwargs, target, True, return_outputs)
        self._fill(losses, execution)
        return self._merged(execution) if return_outputs else None

    def eval(self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, **kwargs: Any) -> Any:
        """Run one batch forward, without tape; return the results on the rank of the last stage."""
        execution = self._execute(args, kwargs, target, False, True)
        self._fill(losses, execution)
        return self._merged(execution)

    def timeline(self) -> Simulation:
        """Return when all ranks did what in the last step, for `write_trace`, `draw` and `simulate`.

        Its costs are the times of its own actions, in seconds: ``simulate(run.program, run.costs)`` says
        how long the step would have taken if nothing but these counted. All ranks of the pipeline call it.
        """
        if self._recording is None:
            raise ScheduleError("timeline: there has been no step yet; call step() or eval() first")
        lowered, agreement = self._last
        return measured(lowered, self._recording, agreement, self.group, self.ranks)

    def _merged(self, execution: Execution) -> Any:
        outputs = execution.outputs
        return merge([outputs[i] for i in sorted(outputs)], self.specs[3]) if outputs else None

    def _fill(self, losses: list[Tensor] | None, execution: Execution) -> None:
        if self.broadcast_losses:
            everyone = np.zeros(self.program.microbatches)
            for i, loss in execution.losses.items():
                everyone[i] = loss.item()
            with implicit():
                everyone = all_reduce(everyone, "sum", self.group)
            if losses is not None:
                losses[:] = [Tensor(everyone[i : i + 1].reshape(())) for i in range(len(everyone))]
        elif losses is not None:
            losses[:] = [execution.losses[i].detach() for i in sorted(execution.losses)]

    def _execute(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, train: bool, keep_outputs: bool
    ) -> Execution:
        count = self.program.microbatches
        ends = (self.has_first, self.has_last, train and self.loss_fn is None)
        chunks, named, targets, failure = cut(args, kwargs, target, count, ends, train, self.specs)
        # Only the rank of the first stage sees the shapes of a batch, so all must learn that they are others.
        key = (train, shared_signature(signature((*(chunks or ()), *named)), failure, self.group))
        if key not in self._agreed:
            agreement = agree(self.stages, self.placement, self.ranks, chunks, named)
            program = self.program if train else _forwards(self.program)
            lowered = self._lowered(program, agreement.skips)
            if isinstance(self._link, DeviceLink):
                self._link.connect(directed_edges(lowered, self.ranks))
            self._agreed[key] = (agreement, lowered, route(lowered, self.place))
        agreement, lowered, way = self._agreed[key]
        self._last = (lowered, agreement)
        weights = [1.0] * count if targets is None else weights_of(targets, self.loss_reduction)
        windows = windows_of(agreement.rows, part_of_batch(self.stages, self.data_parallel))
        batch = Batch(chunks, named, targets, self.loss_fn, weights, windows)
        tied_done: set[int] = set()
        aside = [each.set_aside(self.stages) if train else None for each in self.tied]

        def sync_tied(k: int) -> None:
            tied_done.add(k)
            self.tied[k].add_up(self.stages, self.placement, self.ranks, aside[k])

        for replica in self._replicas if train else ():
            replica.set_aside()
        execution = Execution(
            lowered.ranks[self.place], self.stages, agreement,
            Edges(way, self.ranks, agreement.metas, self._link, rank()), batch,
            here=rank(), train=train, keep_outputs=keep_outputs, sync_tied=sync_tied,
            draw=random.next_forward() if agreement.draws else None,
        )  # fmt: skip
        try:
            execution.run()
            if train:
                self._finish(sync_tied, tied_done)
        except BaseException:
            for stage in self.stages.values():
                stage.forget()
            raise
        self._recording = execution.recording
        return execution

    def _finish(self, sync_tied: Callable[[int], None], done: set[int]) -> None:
        """Have all gradients reduced, in an order that is the same on all ranks."""
        for index in sorted(self.stages):
            sharded = self.stages[index].sharded
            if sharded is not None:
                sharded.finish()
        for replica in self._replicas:
            replica.add_up()
        for k in range(len(self.tied)):
            if k not in done:
                sync_tied(k)


def _forwards(program: Program) -> Program:
    """Return a program's forwards alone, in their order."""
    return Program.of(
        [[part for action in actions for part in action.compute if part.kind == "F"] for actions in program]
    )


def _computed(program: Program) -> Program:
    """Return a program without its transfers."""
    return Program.of(
        [[a for a in actions if not a.kind.startswith(("SEND", "RECV"))] for actions in program]
    )
