"""What an op may do on one mesh axis, from its index signature; and which of it costs least.

On one axis an op runs in one of a few ways: on replicas; with one letter of its signature cut, so that every
array that has the letter is sharded; or on terms of a sum that pass through it because it is linear. The ways
of several axes are independent of each other, and are put together by `strategy`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, PartialOp, Placement, Replicate, Shard
from shardwise.dtensor.rule.table import TERMS
from shardwise.tensor.function import Function
from shardwise.tensor.signature import Terms

__all__ = ["Option", "choose"]

_LATENCY = 20_000.0  # what starting a collective costs, in bytes that could be sent meanwhile
_SLICE, _FILL = 1e-3, 2e-3  # what passes over memory cost, per byte that could be sent meanwhile


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run an op on one axis.

    Attributes
    ----------
    letter : str
        Which is cut; empty if none is.
    op : str
        The reduction that the outputs, or those without the letter, are partial with; empty if none.
    terms : frozenset of int
        Inputs that must be partial. A number among them belongs into one term of a sum.
    before : str
        The reduction that those are partial with; that of the outputs if empty.
    """

    letter: str = ""
    op: PartialOp | str = ""
    terms: frozenset[int] = frozenset()
    before: PartialOp | str = ""

    def wanted(self, position: int, term: Sequence[str]) -> Placement:
        """Return the placement that input `position`, with the letters `term`, must have."""
        if position in self.terms:
            return Partial(self.before or self.op)  # type: ignore[arg-type]  # one of the kinds, if any
        if self.letter and self.letter in term:
            return Shard(term.index(self.letter))
        return Replicate()

    def given(self, term: Sequence[str]) -> Placement:
        """Return the placement of an output with the letters `term`."""
        if self.letter and self.letter in term:
            return Shard(term.index(self.letter))
        return Partial(self.op) if self.op else Replicate()  # type: ignore[arg-type]


def choose(
    function: type[Function],
    terms: Terms,
    layouts: Sequence[Layout | None],
    axis: int,
    tracked: bool,
) -> Option:
    """Return the cheapest way to run an op on an axis.

    Parameters
    ----------
    function : Function class
    terms : Terms
        The dims of its inputs and outputs.
    layouts : sequence of Layout or None
        One per input; None for what is no tensor.
    axis : int
    tracked : bool
        Whether a gradient is recorded, under which the only partial results are sums.

    Returns
    -------
    Option
        The first of the cheapest, so that all ranks choose alike.
    """
    inputs = [tuple([dim.name for dim in term]) for term in terms.inputs]
    best, least = Option(), math.inf
    for option in _options(function, terms, layouts, axis, tracked):
        cost = sum(
            _cost(layout, axis, option.wanted(i, term))
            for i, (layout, term) in enumerate(zip(layouts, inputs, strict=True))
            if layout is not None
        )
        if cost < least:
            best, least = option, cost
    return best


def _options(
    function: type[Function],
    terms: Terms,
    layouts: Sequence[Layout | None],
    axis: int,
    tracked: bool,
) -> Iterator[Option]:
    """Yield what keeps some input as it is, and last what always works: replicas."""
    seen: set[str] = set()
    partial: list[tuple[int, str]] = []
    for i, (layout, term) in enumerate(zip(layouts, terms.inputs, strict=True)):
        if layout is None:
            continue
        placement = layout.placements[axis]
        if isinstance(placement, Shard):
            dim = term[placement.dim]
            if dim.name not in seen and dim.name != "1":
                seen.add(dim.name)
                yield from _cut(function, terms, dim.name, tracked)
            if dim.whole and function not in TERMS:
                yield from _instead(function, terms, layout, axis, i, tracked)
        elif isinstance(placement, Partial):
            partial.append((i, placement.reduce_op))
    for i, op in partial:
        yield from _passed(function, layouts, i, op, tracked)
    yield Option()


def _instead(
    function: type[Function], terms: Terms, layout: Layout, axis: int, i: int, tracked: bool
) -> Iterator[Option]:
    """Yield the options that cut another dim of an input than the one that must be whole.

    That moves each element once, where replicas would move it to all.
    """
    for d, dim in enumerate(terms.inputs[i]):
        wide = not layout.order[d] and layout.shape[d] >= layout.mesh.shape[axis]
        if wide and not dim.whole and dim.name != "1":
            yield from _cut(function, terms, dim.name, tracked)


def _cut(function: type[Function], terms: Terms, letter: str, tracked: bool) -> Iterator[Option]:
    """Yield the option that cuts a letter, if every term allows it."""
    for term in (*terms.inputs, *terms.outputs):
        if sum(dim.name == letter for dim in term) > 1 or any(d.name == letter and d.whole for d in term):
            return
    if all(any(dim.name == letter for dim in term) for term in terms.outputs):
        yield Option(letter)
    elif function.reduces and (function.reduces == "sum" or not tracked or not hasattr(function, "backward")):
        yield Option(letter, function.reduces, frozenset(function.addends))


def _passed(
    function: type[Function],
    layouts: Sequence[Layout | None],
    i: int,
    op: str,
    tracked: bool,
) -> Iterator[Option]:
    """Yield the options that let partial input `i` through."""
    linear = function.linear
    alone = sum(layout is not None for layout in layouts) == 1
    if op == "sum" or (op == "avg" and not tracked):
        if linear == "all":
            yield Option("", op, frozenset(range(len(layouts))))
        elif linear == "each":
            if i not in function.addends:
                yield Option("", op, frozenset([i, *function.addends]))
        elif linear and i in linear:
            yield Option("", op, frozenset(linear))
    elif op in ("max", "min") and not tracked:
        if function.commutes == op:
            yield Option("", op, frozenset(range(len(layouts))))
        elif function.monotone and i == 0 and alone and layouts[0].dtype.kind == "f":  # type: ignore[union-attr]
            # Of integers the lowest, which stands for nothing, has no counterpart on the other side.
            turned = {"max": "min", "min": "max"}
            yield Option("", op if function.monotone > 0 else turned[op], frozenset([i]), op)


def _cost(layout: Layout, axis: int, wanted: Placement) -> float:
    """Return what it costs to bring an input to a placement on one axis, in bytes sent by one rank."""
    placement = layout.placements[axis]
    width = layout.mesh.shape[axis]
    if width == 1 or placement == wanted:
        return 0.0
    parts = math.prod(layout.mesh.shape[i] for i, p in enumerate(layout.placements) if isinstance(p, Shard))
    held = layout.numel * layout.dtype.itemsize / parts
    if isinstance(placement, Replicate):
        return held * (_FILL if isinstance(wanted, Partial) else _SLICE)
    if isinstance(wanted, Partial):
        return math.inf
    if isinstance(placement, Shard):
        if isinstance(wanted, Replicate):
            return held * (width - 1) + _LATENCY
        if placement.dim == wanted.dim:  # ragged: its pieces pass to neighbours at most
            return held * _FILL
        return held * (width - 1) / width + _LATENCY
    shared = held * (width - 1) / width
    return shared + _LATENCY if isinstance(wanted, Shard) else 2 * shared + _LATENCY
