"""`Trace`: what one run of a model does, found by running it on arrays without data.

Nothing is computed, drawn or written: parameters, buffers and arguments are `Absent`, and ops give shapes.
Events are counted: each op, each entry into a module and each exit is one. A cut is a number of events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from shardwise.backend.source import Place, spell_place
from shardwise.pipelining.absent import Absent
from shardwise.pipelining.marker import Anchor, CallId
from shardwise.tensor.tree import TreeDef

__all__ = ["ROOT", "Alias", "Call", "Fact", "Fixed", "Leaf", "OpKey", "Step", "Trace", "TracedValue"]

ROOT = CallId("", 0)


class OpKey(NamedTuple):
    """Names an op so that it is found again in another run: by the code that called it.

    Numbers in the order of the run would not do: with data, some functions take other ops than without.
    """

    call: CallId
    place: Place
    function: str
    earlier: int  # how many before it have the same three


class Fact(NamedTuple):
    """What is known of a result."""

    shape: tuple[int, ...]
    dtype: Any
    place: str


class Fixed(NamedTuple):
    """A result that is no array."""

    value: Any


class Alias(NamedTuple):
    """A result that is not a value itself, but looks at its memory without its history, as by detach()."""

    number: int


Leaf: TypeAlias = int | Alias | Fixed
"""A result: the number of a value, or one of the others."""


@dataclass(slots=True)
class Step:
    """One op of the run.

    Attributes
    ----------
    event : int
    key : OpKey
    reads, gives : tuple of int
        Values, by number.
    state : tuple of str
        The parameters and buffers that it reads.
    many : bool
        Whether its results are a tuple.
    constant : bool
        Nothing that it reads is absent: every stage can run it, and does.
    flops : int
        Of the forward.
    kept : int
        Bytes that it saves for backward, parameters aside.
    """

    event: int
    key: OpKey
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    state: tuple[str, ...]
    many: bool
    constant: bool
    flops: int
    kept: int

    @property
    def line(self) -> str:
        """Where it was called."""
        return spell_place(self.key.place)


@dataclass(slots=True)
class TracedValue:
    """A tensor of the run, or an array that tensors look at.

    Attributes
    ----------
    number : int
    made : int
        The event at which it was first there.
    source : str
        "argument", "keyword", "parameter", "buffer", "op", or "other" for what appeared without an op.
    name : str
        Of the keyword, or of the parameter or buffer.
    fact : Fact
    constant : bool
        It has values during the trace.
    reads : list of int
        Events that look at it.
    writes : list of int
        Events behind which it had been written into.
    history : list of (int, bool)
        From which event on it required grad or did not.
    """

    number: int
    made: int
    source: str
    fact: Fact
    name: str = ""
    constant: bool = False
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    history: list[tuple[int, bool]] = field(default_factory=list)
    _absent: Absent | None = field(default=None, init=False, repr=False)

    def absent(self) -> Absent:
        """Return a tensor that stands for it: all of them over one array without data."""
        if self._absent is None:
            self._absent = Absent(*self.fact)
        tensor: Absent = object.__new__(Absent)
        tensor.data, tensor.place = self._absent.data, self.fact.place
        return tensor

    def requires_grad(self, event: int) -> bool:
        """Tell whether it required grad just before an event."""
        return next((needs for at, needs in reversed(self.history) if at < event), False)


@dataclass(slots=True)
class Call:
    """One call of a module below the root.

    Attributes
    ----------
    id : CallId
    enter, leave : int
        Its first event and its last one.
    leaves : tuple of Leaf
        The results.
    tree : TreeDef or None
        How results are nested.
    draws, calls : tuple of (str, int)
        How often which module drew random bits, or was called, meanwhile.
    markers : int
        How many markers were passed.
    covered : bool
        It runs inside of `recompute`, which cannot be entered halfway.
    """

    id: CallId
    enter: int
    leave: int = -1
    leaves: tuple[Leaf, ...] = ()
    tree: TreeDef | None = None
    draws: tuple[tuple[str, int], ...] = ()
    calls: tuple[tuple[str, int], ...] = ()
    markers: int = 0
    covered: bool = False


@dataclass(slots=True)
class Trace:
    """What a run of the model did.

    Attributes
    ----------
    steps : list of Step
    values : list of TracedValue
    calls : dict of CallId to Call
        In the order of entry.
    markers : list of (int, bool)
        The event of each `pipe_split`, and whether it is inside of `recompute`.
    draws : list of int
        Events before which random bits were drawn.
    leaves : tuple of Leaf
        The results of the model.
    tree : TreeDef or None
        How they are nested.
    end : int
        Number of events.
    """

    steps: list[Step] = field(default_factory=list)
    values: list[TracedValue] = field(default_factory=list)
    calls: dict[CallId, Call] = field(default_factory=dict)
    markers: list[tuple[int, bool]] = field(default_factory=list)
    draws: list[int] = field(default_factory=list)
    leaves: tuple[Leaf, ...] = ()
    tree: TreeDef | None = None
    end: int = 0

    @property
    def outputs(self) -> list[int]:
        """The values among the results."""
        return [
            leaf.number if isinstance(leaf, Alias) else leaf
            for leaf in self.leaves
            if not isinstance(leaf, Fixed)
        ]

    def event_of(self, anchor: Anchor) -> int | None:
        """Return the event at which a cut at an anchor begins the later stage; None if it is not passed."""
        if anchor.kind == "marker":
            number = anchor.call.number
            return self.markers[number][0] if number < len(self.markers) else None
        call = self.calls.get(anchor.call)
        if call is None:
            return None
        return call.enter if anchor.kind == "before" else call.leave + 1

    def is_covered(self, anchor: Anchor) -> bool:
        """Tell whether an anchor lies inside of `recompute`."""
        if anchor.kind == "marker":
            return self.markers[anchor.call.number][1]
        return self.calls[anchor.call].covered
