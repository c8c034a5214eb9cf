"""`Replay`: runs the code of a whole model, and of its ops those of one stage.

What lies before the stage is passed over: ops give tensors without values, as the trace says, and modules
are not entered where nothing in them is wanted. Where the stage begins, the tensors that are held by the
model's own code, in its variables, become those that were received; from there on it simply runs. Where the
stage ends, the run is broken off.

So Python's control flow, its contexts, random streams, hooks and writes into buffers are what they are in the
whole model, for every shape, and a stage costs what its modules cost: they run without being watched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shardwise.backend.errors import DataDependentShapeError, ScheduleError
from shardwise.backend.shape import ShapeArray
from shardwise.backend.source import Place, spell_place
from shardwise.pipelining.absent import Absent, Receive, become, is_absent
from shardwise.pipelining.cut import Part
from shardwise.pipelining.marker import Anchor, CallId, Run, unwatched
from shardwise.pipelining.recorder import arrays_in, calling_place
from shardwise.pipelining.trace import ROOT, Alias, Call, Fixed, Leaf, OpKey, Step
from shardwise.tensor import Tensor, enable_grad, random, tree_leaves
from shardwise.tensor.mode import Door, override
from shardwise.tensor.tree import tree_flatten, tree_unflatten

__all__ = ["EndOfStage", "Replay"]


class EndOfStage(BaseException):
    """The stage is done: unwinds the model's own code, of which the rest belongs to others."""


class Replay:
    """One run of a stage: the door that ops outside of its modules go through, and the watcher of calls.

    Parameters
    ----------
    part : Part
    incoming : sequence of Tensor
        In the order of ``part.incoming``.
    doors : tuple of Door
        What other ops go through.
    """

    def __init__(self, part: Part, incoming: Sequence[Tensor], doors: tuple[Door, ...]) -> None:
        self.part, self.incoming, self.doors = part, incoming, doors
        self.begun = part.index == 0
        self.done = False
        self.held: dict[int, Any] = {}  # values by number, as the model's code holds them
        self._arrays: dict[int, int] = {}
        self._alive: list[Any] = []
        self._stack = [ROOT]
        self._counts: Counter[str] = Counter()
        self._keys: Counter[tuple[CallId, Place, str]] = Counter()
        self._markers = 0
        self._wanted = {value.number for value in part.outgoing}

    def hold(self, number: int, value: Any) -> None:
        """Remember which object a value is."""
        self.held[number] = value
        if is_absent(value):
            array = value.data if isinstance(value, Tensor) else value
            self._arrays[id(array)] = number
            self._alive.append(array)  # a name by id is good as long as what it names

    # ---- the stage's borders

    def _reach(self, anchor: Anchor) -> None:
        if self.done:
            return
        if not self.begun and anchor == self.part.start:
            self._begin()
        elif self.begun and anchor == self.part.end:
            self.done = True
            raise EndOfStage

    def _begin(self) -> None:
        """Let the tensors that the model's code holds become those that were received."""
        self.begun = True
        for value, tensor in zip(self.part.incoming, self.incoming, strict=True):
            held = self.held.get(value.number)
            if held is None:
                raise self._other_run(f"the tensor of shape {value.fact.shape} that is sent to it")
            fresh = _received(tensor, value.number in self.part.copied)
            if isinstance(held, Tensor):
                become(held, fresh)
            else:
                self.held[value.number] = fresh.data

    def results(self) -> list[Tensor]:
        """Return what the stage gives to others, in the order of ``part.outgoing``."""
        found = []
        for value in self.part.outgoing:
            held = self.held.get(value.number)
            if held is None or is_absent(held):
                raise self._other_run(f"the tensor of shape {value.fact.shape} that it is to send")
            found.append(held if isinstance(held, Tensor) else Tensor(held))
        return found

    def with_values(self, result: Any) -> Any:
        """Return the results of the model with what was received in place of what stands for it."""
        leaves, tree = tree_flatten(result)
        return tree_unflatten(tree, [self._with_values(leaf) for leaf in leaves])

    def _other_run(self, what: str) -> ScheduleError:
        return ScheduleError(
            f"stage {self.part.index} does not come to {what}: with values the model does other ops than "
            "without. What it does must depend on shapes and arguments alone, not on values, nor on what "
            "earlier calls left behind"
        )

    # ---- calls

    def call(self, path: str, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call of a module, or pass over it."""
        if self.done:  # recompute() runs it again, in the backward
            return run(args, kwargs)
        named = CallId(path, self._counts[path])
        self._counts[path] += 1
        self._reach(Anchor("before", named))
        call = self.part.trace.calls.get(named)
        if call is None:
            if not self.begun:
                raise self._other_run(f"its beginning; it calls {path} instead")
            return run(args, kwargs)
        how = self.part.treatment(call)
        if how == "skip":
            result = self._skip(call)
        elif how == "run" and self.begun:
            result = self._run(call, run, args, kwargs)
        else:
            self._stack.append(named)
            try:
                result = run(args, kwargs)
            finally:
                self._stack.pop()
        self._reach(Anchor("behind", named))
        return result

    def _skip(self, call: Call) -> Any:
        self._pass(call)
        scope = random.scope()
        if scope is not None:
            for path, count in call.draws:
                scope.counts[path] = scope.counts.get(path, 0) + count
        assert call.tree is not None
        return tree_unflatten(call.tree, [self._shown(leaf) for leaf in call.leaves])

    def _shown(self, leaf: Leaf) -> Any:
        if isinstance(leaf, Fixed):
            return leaf.value
        if isinstance(leaf, Alias):
            return self._shown(leaf.number).detach()
        number = leaf
        if number not in self.held:
            self.hold(number, self.part.trace.values[number].absent())
        return self.held[number]

    def _run(self, call: Call, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._pass(call)
        for leaf in tree_leaves((args, kwargs)):
            if type(leaf) is Absent:
                self._adopt(leaf)
        with unwatched(), override(doors=self.doors):
            result = run(args, kwargs)
        if self._wanted:
            for number, leaf in zip(call.leaves, tree_leaves(result), strict=True):
                if number in self._wanted:
                    self.held[number] = leaf
        return result

    def _pass(self, call: Call) -> None:
        """Count what happens inside of a call that is not watched."""
        self._markers += call.markers
        for path, count in call.calls:
            self._counts[path] += count

    def marker(self) -> None:
        """Pass a `pipe_split`."""
        number = self._markers
        self._markers += 1
        self._reach(Anchor("marker", CallId("", number)))

    # ---- ops

    def op(self, function: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Run an op that is not inside of a module that runs as it is, or pass over it."""
        if self.done:
            return function.apply(*args, **params)
        called = (self._stack[-1], calling_place(2), function.__name__)
        step = self.part.by_key.get(OpKey(*called, self._keys[called]))
        self._keys[called] += 1
        if not self.begun and step is not None and not step.constant and step.event not in self.part.again:
            return self._given(step)
        if any(is_absent(each) for each in arrays_in((args, params))):
            args, params = self._with_values(args), self._with_values(params)
        try:
            result = function.apply(*args, **params)
        except DataDependentShapeError as error:
            raise ScheduleError(
                f"stage {self.part.index}, at {spell_place(called[1])}: {function.__name__} needs values "
                "that an earlier stage has, and that came to it without an op"
            ) from error
        if step is not None:
            for number, out in zip(step.gives, result if step.many else (result,), strict=True):
                if number in self._wanted or not self.begun:
                    self.hold(number, out)
        return result

    def _given(self, step: Step) -> Any:
        values = self.part.trace.values
        outs = [values[number].absent() for number in step.gives]
        for number, out in zip(step.gives, outs, strict=True):
            self.hold(number, out)
        return tuple(outs) if step.many else outs[0]

    def _with_values(self, values: Any) -> Any:
        """Return arguments of an op with what was received in place of what stands for it."""
        if isinstance(values, Tensor):
            if type(values) is Absent:
                self._adopt(values)
            return values
        if isinstance(values, ShapeArray):
            held = self.held.get(self._arrays.get(id(values), -1))
            found = held.data if isinstance(held, Tensor) else held
            return values if found is None else found
        if isinstance(values, (tuple, list)):
            return type(values)([self._with_values(each) for each in values])
        if isinstance(values, dict):
            return {name: self._with_values(each) for name, each in values.items()}
        return values

    def _adopt(self, alias: Tensor) -> None:
        """Give values to a tensor that was made of another one without an op, as by detach()."""
        held = self.held.get(self._arrays.get(id(alias.data), -1))
        if isinstance(held, Tensor) and not is_absent(held):
            become(alias, held.detach())
        elif held is not None and not is_absent(held):
            become(alias, Tensor(held))


def _received(tensor: Tensor, written: bool) -> Tensor:
    """Return what was received as the result of an op; a copy, if it will be written into."""
    if not tensor.requires_grad:
        return Tensor(tensor.data.copy() if written else tensor.data)
    with enable_grad():  # a cut may lie in a stretch of code without a tape
        return tensor.clone() if written else Receive.apply(tensor)
