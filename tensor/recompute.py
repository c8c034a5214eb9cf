"""Trade time for memory: drop what a block saved, and run it again when backward needs it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeAlias, TypeVar

from shardwise.backend.errors import AutogradError
from shardwise.tensor import random
from shardwise.tensor.mode import current_mode, override
from shardwise.tensor.tape import Node, check_versions

__all__ = ["Rerun", "checkpointed", "recompute"]

T = TypeVar("T")

Rerun: TypeAlias = Callable[[], None]
"""Runs a block again now, unless that has happened."""


def recompute(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run ``function(*args, **kwargs)`` and keep none of its saved arrays for backward.

    When backward first needs one of them, the function runs again, with the same random bits and
    modes, and what it saves is used up node by node (Chen et al. 2016). The tape itself is
    unchanged: hooks, gradients of closed-over parameters and two-phase backward work as without.

    Parameters
    ----------
    function : callable
        Must do the same operations each time, and ask for no gradients itself. Its inputs stay alive
        until backward.
    *args, **kwargs
        Passed on.

    Returns
    -------
    what `function` returns

    Raises
    ------
    AutogradError
        If `function` asks for gradients, or an input was written in place since; during backward, if
        the second run recorded other operations than the first.
    """
    return checkpointed(function, *args, **kwargs)[0]


def checkpointed(function: Callable[..., T], *args: Any, **kwargs: Any) -> tuple[T, Rerun | None]:
    """Do as `recompute` does, and return also what runs the function again before backward asks for it.

    Returns
    -------
    what `function` returns
    callable or None
        None where nothing is to be run again: without grad, or inside another `recompute`.
    """
    mode = current_mode()
    if not mode.grad or mode.saver is not None:  # inside another recompute, that one covers this
        return function(*args, **kwargs), None
    saver = _Recomputing(function, args, kwargs)
    with override(saver=saver):
        result = function(*args, **kwargs)
    saver.complete = True
    return result, saver.run_again


_NO_GRADIENTS = (
    "the function given to recompute() asked for gradients of what it had just computed, whose saved arrays "
    "are not kept; call grad() or backward() outside of it, or leave recompute() out"
)


class _Harvest:
    """Collects what the second run saves, in the order of its nodes."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.saved: list[tuple[Any, ...] | None] = []

    def pack(self, node: Node) -> None:
        self.nodes.append(node)
        self.saved.append(node.saved)
        node.saved = ()


class _Place:
    """Stands on a node for what it saved; it does not know the node, so a graph dies with its tensors."""

    __slots__ = ("_number", "_recomputing")

    def __init__(self, recomputing: _Recomputing, number: int) -> None:
        self._recomputing = recomputing
        self._number = number

    def unpack(self) -> tuple[Any, ...]:
        return self._recomputing.take(self._number)


class _Recomputing:
    """Holds the place of the arrays that the nodes of one block would have saved."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.complete = False  # whether the first run has ended
        self._call = (function, args, kwargs)
        self._context: Context = copy_context()
        self._random = random.snapshot()
        self._names: list[str] = []
        self._waiting: dict[int, tuple[Any, ...]] = {}
        self._versions = [
            (value.version, value.version.count)
            for value in (*args, *kwargs.values())
            if hasattr(value, "node")
        ]

    def pack(self, node: Node) -> None:
        if node.saved:
            node.saved = _Place(self, len(self._names))
        self._names.append(node._function.__name__)

    def take(self, place: int) -> tuple[Any, ...]:
        """Return what the node at `place`, counted in the order of the run, saved in the second run."""
        if not self.complete:
            raise AutogradError(_NO_GRADIENTS)
        if place not in self._waiting:
            self._run_again()
        return self._waiting.pop(place)

    def run_again(self) -> None:
        """Run the block again, unless that has happened."""
        if not self._waiting:
            self._run_again()

    def _run_again(self) -> None:
        for version, count in self._versions:
            if version.count != count:
                raise AutogradError(
                    "an input of recompute() was written in place between forward and backward; "
                    "clone() it first"
                )
        harvest = _Harvest()
        function, args, kwargs = self._call

        def again() -> None:
            with random.replay(self._random), override(grad=True, saver=harvest):
                function(*args, **kwargs)

        self._context.copy().run(again)
        names = [node._function.__name__ for node in harvest.nodes]
        if names != self._names:
            at = next(
                (i for i, pair in enumerate(zip(names, self._names, strict=False)) if pair[0] != pair[1]),
                min(len(names), len(self._names)),
            )
            was = self._names[at] if at < len(self._names) else "nothing"
            now = names[at] if at < len(names) else "nothing"
            raise AutogradError(
                f"recompute() ran other operations the second time: number {at} was {was} and is now {now}. "
                "The function must not depend on anything that changes between forward and backward."
            )
        for node, saved in zip(harvest.nodes, harvest.saved, strict=True):
            check_versions(node, saved or ())
        self._waiting = {i: saved for i, saved in enumerate(harvest.saved) if saved}
