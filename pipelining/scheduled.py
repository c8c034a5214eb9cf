"""`Schedule`: a program, on paper or over stages that run it, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from shardwise.backend.errors import ScheduleError
from shardwise.collectives import world_size
from shardwise.pipelining.action import Dialect
from shardwise.pipelining.checker.check import require_valid
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.drawing import draw
from shardwise.pipelining.explanation import Explanation, explain
from shardwise.pipelining.lowering import lower
from shardwise.pipelining.pipeline import Pipeline
from shardwise.pipelining.program import Format, Program
from shardwise.pipelining.schedule.named import find_named
from shardwise.pipelining.simulation import Simulation, simulate
from shardwise.pipelining.stage import PipelineStage
from shardwise.tensor import Tensor

__all__ = ["Schedule"]


class Schedule:
    """What every rank does in one step; and, made of stages, what does it.

    Parameters
    ----------
    stages : int, PipelineStage, or sequence of PipelineStage
        Number of ranks, for a schedule on paper; or this rank's stages, to run them.
    n_microbatches : int
    loss_fn : callable, optional
        ``loss_fn(output, target)`` gives a tensor with one element.
    args_chunk_spec, kwargs_chunk_spec, output_merge_spec : optional
        How arguments are cut and results put together; see `microbatch`.
    scale_grads : bool
        Whether the loss of the batch is the mean of those of the microbatches, by their rows, or their sum.
    stages_per_rank : int, optional
        As the schedule has it by default: one, or two for those that need several; with stages, as many as
        are given.
    **options
        Of `Pipeline`, with stages.

    Attributes
    ----------
    program : Program
        What is computed.
    pipeline : Pipeline or None
        What runs it.

    Examples
    --------
    >>> from shardwise.pipelining import Schedule1F1B
    >>> schedule = Schedule1F1B(2, 3)
    >>> print(schedule.draw())
    rank 0 |F0 F1 .. .. B0 B0 F2 B1 B1 .. B2 B2
    rank 1 |.. F0 B0 B0 F1 B1 B1 F2 B2 B2 .. ..
    >>> schedule.simulate(Costs(latency=0.5)).makespan
    14.0

    The same over stages, of which one rank alone has the only one:

    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> stage = PipelineStage(nn.Linear(2, 1), 0, 1)
    >>> schedule = Schedule1F1B(stage, 3, loss_fn=nn.functional.mse_loss)
    >>> schedule.step(sw.ones(6, 2), target=sw.zeros(6, 1), losses=(losses := []))
    >>> len(losses), stage.submodule.weight.grad.shape
    (3, (1, 2))
    """

    name: ClassVar[str] = ""
    default_stages_per_rank: ClassVar[int] = 1
    program: Program
    pipeline: Pipeline | None

    def __init__(
        self,
        stages: int | PipelineStage | Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[[Any, Any], Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        *,
        stages_per_rank: int | None = None,
        **options: Any,
    ) -> None:
        if not self.name:
            raise ScheduleError(
                "Schedule has no program of its own; take a named one, Schedule.from_actions or from_csv"
            )
        if loss_fn is not None and not callable(loss_fn):
            raise ScheduleError(
                f"loss_fn must be a function of output and target, got {loss_fn!r}; stages per rank are "
                "told by stages_per_rank="
            )
        name, named = find_named(self.name)
        self.pipeline = None
        if isinstance(stages, int):
            per_rank = self.default_stages_per_rank if stages_per_rank is None else stages_per_rank
            self.program = named.program(name, stages, n_microbatches, per_rank)
            return
        held = _listed(stages)
        ranks = ranks_of(held)
        if named.placement == "both":
            per_rank = 1  # two here, one of each replica
        else:
            per_rank = len(held) if stages_per_rank is None else stages_per_rank
        self.program = named.program(name, len(ranks), n_microbatches, per_rank)
        specs = (args_chunk_spec, kwargs_chunk_spec, output_merge_spec)
        options.setdefault("replicas", named.replicas)
        self._bind(held, ranks, loss_fn, specs, scale_grads, options)

    def _bind(
        self,
        stages: Sequence[PipelineStage],
        ranks: Sequence[int],
        loss_fn: Callable[[Any, Any], Tensor] | None,
        specs: tuple[Any, Any, Any],
        scale_grads: bool,
        options: dict[str, Any],
    ) -> None:
        options.setdefault("loss_reduction", "mean" if scale_grads else "sum")
        args_spec, kwargs_spec, output_spec = specs
        self.pipeline = Pipeline(
            self.program, stages, loss_fn=loss_fn, ranks=ranks, args_spec=args_spec,
            kwargs_spec=kwargs_spec, output_spec=output_spec, **options,
        )  # fmt: skip

    @classmethod
    def from_actions(
        cls,
        program: Program | str | Sequence[str],
        format: Format = "compute_comms",
        replicas: int = 1,
        *,
        stages: PipelineStage | Sequence[PipelineStage] | None = None,
        loss_fn: Callable[[Any, Any], Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        **options: Any,
    ) -> Schedule:
        """Make a schedule of one's own program.

        Parameters
        ----------
        program : Program, str, or sequence of str
            A program, its text, or one line of actions per rank.
        format : Format
            ``compute_only`` refuses transfers, which are then added; ``compute_comms`` is run as it is, if
            it has any.
        replicas : int
            Ranks that hold the same stage.
        stages, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads, **options
            As for a named schedule; on paper, if no stages are given.

        Raises
        ------
        ScheduleError
            It is wrong in any of the ways that `check` knows.
        """
        if not isinstance(program, Program):
            text = program if isinstance(program, str) else "\n".join(program)
            program = Program.from_text(text, format)
        require_valid(program, format=format, replicas=replicas)
        made = Schedule.__new__(Schedule)
        made.program, made.pipeline = program, None
        if stages is not None:
            held = _listed(stages)
            specs = (args_chunk_spec, kwargs_chunk_spec, output_merge_spec)
            made._bind(held, ranks_of(held), loss_fn, specs, scale_grads, {"replicas": replicas, **options})
        return made

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        format: Format = "compute_comms",
        dialect: Dialect = "shardwise",
        **options: Any,
    ) -> Schedule:
        """Make a schedule of a file that `to_csv`, or PyTorch, wrote; options as for `from_actions`."""
        return cls.from_actions(Program.from_csv(path, format, dialect), format, **options)

    def to_csv(self, path: str | Path, format: Format = "compute_only") -> None:
        """Write what is computed into a file, or, as ``compute_comms``, also what is sent."""
        (self.program if format == "compute_only" else self.lowered).to_csv(path)

    # ---- running

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Tensor] | None = None,
        return_outputs: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Run one batch forward and backward; see `Pipeline.step`."""
        return self._running("step").step(
            *args, target=target, losses=losses, return_outputs=return_outputs, **kwargs
        )

    def eval(self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, **kwargs: Any) -> Any:
        """Run one batch forward; see `Pipeline.eval`."""
        return self._running("eval").eval(*args, target=target, losses=losses, **kwargs)

    def _running(self, what: str) -> Pipeline:
        if self.pipeline is None:
            raise ScheduleError(
                f"{what}: this schedule is on paper; make it of stages to run it, as in "
                f"{type(self).__name__}(stage, {self.n_microbatches}, loss_fn=...)"
            )
        return self.pipeline

    # ---- on paper

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.program)

    @property
    def n_microbatches(self) -> int:
        """Number of microbatches."""
        return self.program.microbatches

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        return self.program.stages

    @property
    def lowered(self) -> Program:
        """What is computed and sent."""
        return self.program if self.program.has_transfers else lower(self.program)

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """Return the stages that a rank computes, ascending."""
        if not 0 <= rank < self.ranks:
            raise ScheduleError(f"stages_of: wanted a rank from 0 to {self.ranks - 1}, got {rank}")
        return self.program.stages_of(rank)

    def simulate(self, costs: Costs | None = None, *, lanes: bool = False) -> Simulation:
        """Run it on paper; see `simulate`."""
        return simulate(self.program, costs, lanes=lanes)

    def draw(self, costs: Costs | None = None) -> str:
        """Return a grid of time and ranks; see `draw`."""
        return draw(self.simulate(costs))

    def explain(self, costs: Costs | None = None) -> Explanation:
        """Return what the time goes into; see `explain`."""
        return explain(self.simulate(costs))

    def __repr__(self) -> str:
        what = f"ranks={self.ranks}, n_microbatches={self.n_microbatches}, n_stages={self.n_stages}"
        return f"{type(self).__name__}({what})"


def _listed(stages: PipelineStage | Sequence[PipelineStage]) -> list[PipelineStage]:
    held = [stages] if isinstance(stages, PipelineStage) else list(stages)
    if not held or not all(isinstance(stage, PipelineStage) for stage in held):
        raise ScheduleError(
            f"stages: wanted a number of ranks, a PipelineStage or several, got {stages!r:.200}"
        )
    return held


def ranks_of(stages: Sequence[PipelineStage]) -> tuple[int, ...]:
    """Return the global ranks of the pipeline that stages belong to: those of their group, or the world."""
    group = stages[0].group
    return tuple(range(world_size())) if group is None else group.ranks
