"""When each op ran: what a trace of a step is drawn from.

Ops ask the mode of their context whether somebody times them, as they ask it for anomaly mode; where nobody
does, they pay nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeAlias

from shardwise.tensor.mode import current_mode, override
from shardwise.tensor.random import scope

__all__ = ["Span", "Way", "time_ops", "timed"]

Way: TypeAlias = Literal["forward", "backward", "block"]


class Span(NamedTuple):
    """One forward or backward of an op, or a block of code with a name.

    Attributes
    ----------
    name : str
        Of the op's class, or the block's.
    way : {"forward", "backward", "block"}
    module : str
        Path of the module in whose forward it was called; ``""`` outside of modules.
    start, end : float
        Seconds, by ``time.perf_counter``. On a device: when it was queued, not when it ran.
    thread : str
        Name of the thread that ran it.
    """

    name: str
    way: Way
    module: str
    start: float
    end: float
    thread: str


@contextmanager
def time_ops(spans: list[Span]) -> Iterator[None]:
    """Append a `Span` to `spans` for every op that runs in a block, forward and backward.

    Parameters
    ----------
    spans : list of Span
        Grows by one tuple per op, in the order in which they end.

    Notes
    -----
    An op costs about a microsecond more inside of the block.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise.tensor.timeline import time_ops
    >>> x, spans = sw.ones(3, requires_grad=True), []
    >>> with time_ops(spans):
    ...     x.exp().backward(sw.ones(3))
    >>> [(span.name, span.way) for span in spans]
    [('Exp', 'forward'), ('Exp', 'backward')]
    """
    around = current_mode().timer
    outer = around.lists if isinstance(around, _Recorder) else ()
    with override(timer=_Recorder((*outer, spans))):
        yield


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Note a block of code that is no op, such as an optimizer's step, where somebody times ops."""
    timer = current_mode().timer
    if timer is None:
        yield
        return
    start = perf_counter()
    try:
        yield
    finally:
        timer.block(name, start)


class _Recorder:
    """The timer of a block: notes each op in the lists of this block and of those around it."""

    def __init__(self, lists: tuple[list[Span], ...]) -> None:
        self.lists = lists

    def module(self) -> str:
        running = scope()
        return running.path() if running is not None and running.stack else ""

    def forward(self, function: Any, start: float) -> None:
        self._note(function.__name__, "forward", self.module(), start)

    def backward(self, node: Any, ctx: Any, grads: list[Any]) -> Any:
        start = perf_counter()
        results = node._function.backward(ctx, *grads)
        self._note(node._function.__name__, "backward", node._module, start)
        return results

    def block(self, name: str, start: float) -> None:
        self._note(name, "block", self.module(), start)

    def _note(self, name: str, way: Way, module: str, start: float) -> None:
        span = Span(name, way, module, start, perf_counter(), threading.current_thread().name)
        for spans in self.lists:
            spans.append(span)  # threads may do it at once
