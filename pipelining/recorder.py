"""`record`: run a model on arrays without data, and note what it does."""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from shardwise.backend import array
from shardwise.backend.errors import DataDependentShapeError, ScheduleError
from shardwise.backend.source import Place
from shardwise.nn import Module
from shardwise.nn import functions as nn_functions
from shardwise.pipelining.absent import Absent, Receive, is_absent
from shardwise.pipelining.arguments import Arguments
from shardwise.pipelining.marker import CallId, Run, watched_by
from shardwise.pipelining.skip import Box, carrying
from shardwise.pipelining.trace import ROOT, Alias, Call, Fact, Fixed, Leaf, OpKey, Step, Trace, TracedValue
from shardwise.tensor import Tensor, function, random, tree_flatten
from shardwise.tensor.mode import current_mode, override
from shardwise.tensor.ops.device import Transfer
from shardwise.tensor.signature import flops

__all__ = ["arrays_in", "calling_place", "record"]

# Where functions of tensors are made of ops: who calls them is asked for.
_LOW = tuple(
    {
        resolve(os.path.dirname(path)) + os.sep
        for path in (array.__file__, function.__file__, nn_functions.__file__)
        for resolve in (os.path.abspath, os.path.realpath)
    }
)


def record(
    blueprint: Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor], arguments: Arguments
) -> Trace:
    """Run a model without data, and return what it did.

    Parameters
    ----------
    blueprint : Module
        All of whose tensors are absent, and whose modules are watched.
    parameters, buffers : dict of str to Tensor
        Those of `blueprint`.
    arguments : Arguments

    Raises
    ------
    ScheduleError
        What the model does depends on values: the line that asked for one.
    """
    recorder = _Recorder()
    for source, state in (("parameter", parameters), ("buffer", buffers)):
        for name, tensor in state.items():
            recorder.begin(tensor, source, name)
    leaves = arguments.absent()
    for leaf, keyword in zip(leaves, arguments.names(), strict=True):
        if is_absent(leaf):
            recorder.begin(leaf, "argument" if keyword is None else "keyword", keyword or "")
    args, kwargs = arguments.put_together(leaves)
    scope = random.Scope(blueprint.module_paths, 0)  # with a number of its own: no stream moves on
    mode: dict[str, Any] = {"grad": True, "saver": None, "timer": None, "anomaly": False}
    try:
        doors, box = (recorder.op,), Box({})
        with random.enter(scope), watched_by(recorder), carrying(box), override(doors=doors, **mode):
            result = blueprint(*args, **kwargs)
    except DataDependentShapeError as error:
        raise ScheduleError(
            f"cannot split {type(blueprint).__name__}: what it does depends on values, and it is split "
            f"before there are any. {error} A number that is known beforehand may be an argument of the "
            "model; a condition on values may be written with where()."
        ) from error
    return recorder.end(result)


class _Recorder:
    """The door that ops go through during a trace, and the watcher of calls."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.event = 0
        self._stack = [ROOT]
        self._counts: Counter[str] = Counter()  # of calls, by path
        self._keys: Counter[tuple[CallId, Place, str]] = Counter()
        self._tensors: dict[int, int] = {}
        self._arrays: dict[int, int] = {}
        self._held: list[Any] = []  # arrays that are named by their id must stay alive; tensors must not:
        self._objects: dict[int, weakref.ref[Tensor]] = {}  # who looks at whose memory would be another thing
        self._recent: list[int] = []
        self._seen: dict[int, tuple[int, int]] = {}
        self._saved: set[int] = set()  # arrays that some op keeps for backward, or that are there anyway

    # ---- values

    def begin(self, leaf: Any, source: str, name: str) -> None:
        """Note an argument, a parameter or a buffer."""
        if isinstance(leaf, Tensor) and id(leaf) in self._tensors:
            return  # a tensor that is given twice
        self._new(leaf, source, name)
        if source in ("parameter", "buffer"):
            self._saved.add(id(leaf.data))

    def _new(self, leaf: Any, source: str, name: str = "") -> int:
        number = len(self.trace.values)
        array = leaf.data if isinstance(leaf, Tensor) else leaf
        place = str(leaf.device) if isinstance(leaf, Tensor) else "cpu"
        fact = Fact(tuple(array.shape), array.dtype, place)
        value = TracedValue(number, max(self.event - 1, 0), source, fact, name, not is_absent(leaf))
        self.trace.values.append(value)
        self._held.append(array)
        self._arrays.setdefault(id(array), number)
        if isinstance(leaf, Tensor):
            self._tensors[id(leaf)] = number
            self._objects[number] = weakref.ref(leaf)
            value.history.append((self.event - 1, leaf.requires_grad))
            self._seen[number] = (leaf.version.count, id(array))
        return number

    def _number(self, leaf: Any) -> int:
        """Return which value a tensor or array is; a new one, if it came without an op."""
        found = self._tensors.get(id(leaf))
        if found is not None and self._objects[found]() is leaf:
            return found
        array = leaf.data if isinstance(leaf, Tensor) else leaf
        found = self._arrays.get(id(array))
        return self._new(leaf, "other") if found is None else found

    def _look(self, number: int) -> None:
        """Note whether a tensor was written into, and whether it requires grad now, if it is still there."""
        tensor = self._objects[number]()
        if tensor is None:
            return
        value = self.trace.values[number]
        now = (tensor.version.count, id(tensor.data))
        if self._seen.get(number, now) != now:
            value.writes.append(self.event - 1)
            self._held.append(tensor.data)
            self._arrays.setdefault(id(tensor.data), number)
        self._seen[number] = now
        if not value.history or value.history[-1][1] != tensor.requires_grad:
            value.history.append((self.event - 1, tensor.requires_grad))

    def _next(self) -> int:
        """Begin an event; what the op before it did to its inputs is done by now."""
        for number in self._recent:
            self._look(number)
        self._recent.clear()
        self.event += 1
        return self.event - 1

    # ---- ops

    def op(self, function: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Run an op, and note it."""
        event = self._next()
        self._note_draws(event)
        given = list(arrays_in((args, params)))
        numbers = [self._number(each) for each in given]
        for number, each in zip(numbers, given, strict=True):
            value = self.trace.values[number]
            value.reads.append(event)
            if number in self._objects and self._objects[number]() is each:
                self._look(number)
                self._recent.append(number)
        absent = any(is_absent(each) for each in given)
        moves = absent and function is Transfer  # there is nothing that could be moved
        result = Receive.apply(*args) if moves else function.apply(*args, **params)
        outs = result if isinstance(result, tuple) else (result,)
        if absent:
            place = str(params["device"]) if moves else _place_of(given)
            for out in outs:
                _make_absent(out, place)
        values = self.trace.values
        state = [values[n].name for n in numbers if values[n].source in ("parameter", "buffer")]
        self.trace.steps.append(
            Step(
                event, self._key(function), tuple(dict.fromkeys(numbers)),
                tuple([self._new(out, "op") for out in outs]), tuple(dict.fromkeys(state)),
                isinstance(result, tuple), not absent, _flops(function, args, params, outs), self._kept(outs),
            )
        )  # fmt: skip
        return result

    def _key(self, function: Any) -> OpKey:
        called = (self._stack[-1], calling_place(3), function.__name__)
        count = self._keys[called]
        self._keys[called] += 1
        return OpKey(*called, count)

    def _note_draws(self, event: int) -> None:
        scope = random.scope()
        drawn = 0 if scope is None else sum(scope.counts.values())
        while len(self.trace.draws) < drawn:
            self.trace.draws.append(event)

    def _kept(self, outs: Sequence[Any]) -> int:
        """Return how many bytes an op saved that none before it did."""
        node = getattr(outs[0], "node", None)
        total = 0
        saved = getattr(node, "saved", None)
        for kept in saved if isinstance(saved, tuple) else ():  # recompute() takes away what it covers
            if kept is not None and hasattr(kept, "nbytes") and id(kept) not in self._saved:
                self._saved.add(id(kept))
                self._held.append(kept)
                total += int(kept.nbytes)
        return total

    # ---- modules

    def call(self, path: str, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a module's forward, and note it."""
        call = Call(CallId(path, self._counts[path]), self._next())
        call.covered = current_mode().saver is not None
        self._counts[path] += 1
        self.trace.calls[call.id] = call
        counts, draws, markers = self._counts.copy(), self._drawn(), len(self.trace.markers)
        self._stack.append(call.id)
        try:
            result = run(args, kwargs)
        finally:
            self._stack.pop()
        call.leave = self._next()
        self._note_draws(call.leave)
        leaves, call.tree = tree_flatten(result)
        call.leaves = tuple([self._leaf(leaf) for leaf in leaves])
        call.draws = tuple((self._drawn() - draws).items())
        call.calls = tuple((self._counts - counts).items())
        call.markers = len(self.trace.markers) - markers
        return result

    def _leaf(self, leaf: Any) -> Leaf:
        if not _is_array(leaf):
            return Fixed(leaf)
        number = self._number(leaf)
        if not isinstance(leaf, Tensor) or self._objects[number]() is leaf:
            return number
        return Alias(number)

    def _drawn(self) -> Counter[str]:
        scope = random.scope()
        return Counter() if scope is None else Counter(scope.counts)

    def marker(self) -> None:
        """Note a `pipe_split`."""
        self.trace.markers.append((self._next(), current_mode().saver is not None))

    def end(self, result: Any) -> Trace:
        """Note the results of the model, and return the trace."""
        event = self._next()
        self._note_draws(event)
        leaves, self.trace.tree = tree_flatten(result)
        self.trace.leaves = tuple([self._leaf(leaf) for leaf in leaves])
        for number in self.trace.outputs:
            self.trace.values[number].reads.append(event)
        for number in self._objects:  # those that were written without an op, or by the last one
            self._look(number)
        self.trace.end = self.event
        return self.trace


def arrays_in(values: Any) -> Iterator[Any]:
    """Yield the tensors and arrays in arguments of an op, those inside of indices included."""
    if _is_array(values):
        yield values
    elif isinstance(values, (tuple, list)):
        for each in values:
            yield from arrays_in(each)
    elif isinstance(values, dict):
        yield from arrays_in(list(values.values()))


def calling_place(depth: int) -> Place:
    """Return the line of the innermost code that is no function of tensors: of a module, or the user's.

    Parameters
    ----------
    depth : int
        Frames to skip.
    """
    frame = sys._getframe(depth)
    while _is_low(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lineno


@cache
def _is_low(name: str) -> bool:
    return name.startswith(_LOW)


def _is_array(value: Any) -> bool:
    if isinstance(value, (Tensor, np.ndarray)):
        return True
    return hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type)


def _place_of(given: Sequence[Any]) -> str:
    return next((str(each.device) for each in given if isinstance(each, Absent)), "cpu")


def _make_absent(out: Any, place: str) -> None:
    if isinstance(out, Tensor) and is_absent(out):
        out.__class__ = Absent
        out.__dict__["place"] = place


def _flops(function: Any, args: tuple[Any, ...], params: dict[str, Any], outs: Sequence[Any]) -> int:
    shapes = tuple([tuple(np.shape(getattr(arg, "data", arg))) for arg in args if arg is not None])
    counted = int(flops(function, shapes, params))
    if counted > max([math.prod(shape) for shape in shapes], default=0):
        return counted
    return sum([math.prod(out.shape) for out in outs])  # not the whole of a table that is looked into
