"""`time_of_ops`: how long a model takes, forward and backward, by the events of its trace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from shardwise.backend.errors import ScheduleError
from shardwise.nn import Module
from shardwise.pipelining.absent import copy_keeping, is_absent
from shardwise.pipelining.comparison import go_back, undisturbed
from shardwise.pipelining.marker import CallId, Run, watch, watched_by
from shardwise.pipelining.trace import Trace
from shardwise.tensor import Tensor, random, tree_leaves
from shardwise.tensor.timeline import Span, time_ops

__all__ = ["time_of_ops"]


def time_of_ops(
    model: Module, trace: Trace, args: tuple[Any, ...], kwargs: Mapping[str, Any], runs: int = 3
) -> dict[int, float]:
    """Return seconds, forward and backward, by events.

    Parameters
    ----------
    model : Module
    trace : Trace
        Of the model with the same arguments.
    args, kwargs
    runs : int
        Each time is the shortest of so many; one run before them is not counted.

    Raises
    ------
    ScheduleError
        The model or the arguments have no values.

    Notes
    -----
    What runs between two borders of modules is put down to the first of them. Gradients, buffers and random
    streams are as they were behind it.
    """
    tensors = [leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, Tensor)]
    if any(is_absent(each) for each in (*tensors, *model.parameters(), *model.buffers())):
        raise ScheduleError(
            'balance="time" runs the model, which needs values; take "flops", or give it values'
        )
    shared = {id(each) for each in (*model.parameters(), *model.buffers())}
    copy = copy_keeping(model, shared, "cpu")
    watch(copy)
    found: list[dict[int, float]] = []
    for _ in range(runs + 1):
        spans: list[Span] = []
        clock = _Clock(trace)
        scope = _Tagged(copy.module_paths, 0, clock)
        with undisturbed(model), random.enter(scope), watched_by(clock), time_ops(spans):
            result = copy(*args, **kwargs)
            go_back([leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)], None)
        total: defaultdict[int, float] = defaultdict(float)
        for span in spans:
            total[int(span.module or 0)] += span.end - span.start
        found.append(total)
    return {event: min(run.get(event, 0.0) for run in found[1:]) for event in found[-1]}


class _Clock:
    """Watches calls, and knows the last event that was passed."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.event = 0
        self._counts: Counter[str] = Counter()

    def call(self, path: str, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call."""
        call = self.trace.calls.get(CallId(path, self._counts[path]))
        self._counts[path] += 1
        self.event = self.event if call is None else call.enter
        result = run(args, kwargs)
        self.event = self.event if call is None else call.leave
        return result

    def marker(self) -> None:
        """Pass a `pipe_split`."""


class _Tagged(random.Scope):
    """Tells whoever times ops the last event in place of a module's path."""

    __slots__ = ("_clock",)

    def __init__(self, paths: Callable[[], dict[int, str]], number: int, clock: _Clock) -> None:
        super().__init__(paths, number)
        self._clock = clock

    def path(self) -> str:
        """Return the last event."""
        return str(self._clock.event)
