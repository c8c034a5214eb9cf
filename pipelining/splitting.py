"""`pipeline`: split a model into stages, by names, by markers in its code, or evenly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardwise.backend.errors import ScheduleError
from shardwise.nn import Module
from shardwise.pipelining.absent import is_absent
from shardwise.pipelining.arguments import Arguments
from shardwise.pipelining.balance import Balance, MemoryLimits, balanced
from shardwise.pipelining.blueprint import Blueprint
from shardwise.pipelining.marker import Anchor, CallId, SplitPoint, annotated, check_spec
from shardwise.pipelining.pipe import Pipe
from shardwise.pipelining.profile import time_of_ops
from shardwise.pipelining.trace import Trace
from shardwise.tensor import Tensor, tree_leaves

__all__ = ["pipeline"]


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: Mapping[str, Any] | None = None,
    split_spec: Mapping[str, SplitPoint] | None = None,
    *,
    num_stages: int | None = None,
    balance: Balance = "flops",
    memory: float | Sequence[float] | MemoryLimits | None = None,
    speeds: Sequence[float] | None = None,
    stages_per_rank: int = 1,
) -> Pipe:
    """Split a model into the stages of a pipeline.

    The model is run once on arrays without data; nothing is computed, drawn or written, and the model is not
    changed. It is cut where `split_spec` says, where its code calls `pipe_split`, or, with `num_stages`,
    where stages come out alike.

    Parameters
    ----------
    module : Module
        With values, or made on device "shape", so that each stage can be given values where it runs.
    mb_args : tuple
        Positional arguments of one microbatch, such as its ranks will give; values are not looked at. Other
        shapes may come later.
    mb_kwargs : mapping of str, optional
        Keyword arguments. They are not sent: what is made of them alone, such as a mask, is made by each
        stage that needs it, and the ranks of stages that read them give them to ``step()``.
    split_spec : mapping of str to SplitPoint, optional
        Paths of modules before or behind which to cut; each of them is called once.
    num_stages : int, optional
        Cut into so many stages, between modules; inside of those that cost more than an equal share.
    balance : "flops", "params" or "time"
        What stages are to have alike: floating-point operations, bytes of parameters, or the time that the
        model takes here, forward and backward, which needs a model and arguments with values.
    memory : float, sequence of float, or MemoryLimits, optional
        Bytes that each stage may hold: parameters, gradients, two moments of an optimizer, and activations of
        as many microbatches as 1F1B has in flight. `MemoryLimits` says otherwise.
    speeds : sequence of float, optional
        Of the ranks of the stages, relative to each other.
    stages_per_rank : int
        For schedules with several: stages come out more alike, and the largest may be a little larger.

    Returns
    -------
    Pipe

    Raises
    ------
    ScheduleError
        What the model does depends on values (the line is named); a name is not there, or is called several
        times; there are fewer units than stages; no cuts fit the memory.

    Notes
    -----
    Cast, freeze and tie parameters before. Cuts that lie in one place count once, and one in front of the
    first op or behind the last one does not count. The model's own code runs in every stage: see
    docs/concepts/pipeline.md.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> from shardwise.pipelining import pipeline
    >>> model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
    >>> pipe = pipeline(model, (sw.zeros(4, 16),), num_stages=3)
    >>> [stage.modules for stage in pipe.info().stages]
    [('0', '1'), ('2', '3'), ('4', '5')]
    >>> pipe.check(sw.randn(4, 16)).largest < 1e-6
    True
    """
    if not isinstance(mb_args, tuple):
        raise ScheduleError(
            f"mb_args must be a tuple of positional arguments, got a {type(mb_args).__name__}"
        )
    if split_spec is not None and num_stages is not None:
        raise ScheduleError("give split_spec= or num_stages=, not both")
    kwargs = dict(mb_kwargs or {})
    device = _device_of((mb_args, kwargs))
    arguments = Arguments.of(mb_args, kwargs, device)
    blueprint = Blueprint(module, device)
    trace = blueprint.trace(arguments, tuple([each.training for each in module.modules()]))
    if num_stages is not None:
        if trace.markers or annotated(module):
            raise ScheduleError(
                f"the model calls pipe_split() {len(trace.markers)} times, and {len(annotated(module))} "
                "split points are noted on its modules; leave out num_stages=, or those"
            )
        limits = MemoryLimits(memory) if isinstance(memory, (int, float, Sequence)) else memory
        anchors = balanced(
            trace, num_stages, balance,
            times=time_of_ops(module, trace, mb_args, kwargs) if balance == "time" else None,
            sizes={name: parameter.nbytes for name, parameter in module.named_parameters()},
            memory=limits, speeds=speeds, stages_per_rank=stages_per_rank,
        )  # fmt: skip
    else:
        check_spec(module, split_spec or {})
        anchors = _given(trace, [*annotated(module), *(split_spec or {}).items()])
    blueprint.anchors = tuple(anchors)
    return Pipe(module, blueprint, arguments)


def _given(trace: Trace, spec: Sequence[tuple[str, SplitPoint]]) -> list[Anchor]:
    """Return the cuts that names and markers ask for, in order, without those that have nothing between."""
    anchors = [Anchor("marker", CallId("", i)) for i in range(len(trace.markers))]
    for path, point in spec:
        calls = [call for call in trace.calls if call.path == path]
        if len(calls) != 1:
            raise ScheduleError(
                f"split_spec names {path!r}, which the model calls {len(calls)} times; wanted once. Name "
                "another module, or put pipe_split() into the code"
            )
        anchors.append(Anchor("before" if point is SplitPoint.BEGINNING else "behind", calls[0]))
    placed = sorted([(trace.event_of(anchor) or 0, anchor) for anchor in anchors], key=lambda pair: pair[0])
    events = [step.event for step in trace.steps if not step.constant]
    found: list[Anchor] = []
    last = 0
    for event, anchor in placed:
        if any(last <= e < event for e in events) and any(e >= event for e in events):
            found.append(anchor)
            last = event
    return found


def _device_of(values: Any) -> str:
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor) and not is_absent(leaf)]
    return str(tensors[0].device) if tensors else "cpu"
