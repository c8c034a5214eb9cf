"""Where the memory goes: what live tensors hold, what the process takes, and which module made what.

Nothing is counted until it is asked for: `memory_stats` looks through the live tensors when it is
called, and `track_memory` watches a block of code.
"""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwise.backend.array import Array
from shardwise.tensor.mode import intercept
from shardwise.tensor.random import scope
from shardwise.tensor.tape import Node
from shardwise.tensor.tensor import Tensor

__all__ = ["MemoryStats", "MemoryTrack", "memory_stats", "track_memory"]


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What is held at one moment, in bytes. Memory that several tensors share counts once.

    Attributes
    ----------
    leaves : int
        Tensors that require grad and were not computed, such as parameters.
    gradients : int
        Their ``grad``.
    saved : int
        What the tape keeps for backward, beside these.
    others : int
        All other tensors: inputs, results, buffers, states.
    resident : int
        What the process has in physical memory, from /proc (VmRSS); 0 where there is none.
    resident_peak : int
        The most it ever had (VmHWM).
    """

    leaves: int
    gradients: int
    saved: int
    others: int
    resident: int
    resident_peak: int

    @property
    def tensors(self) -> int:
        """Bytes of all tensors and of what the tape keeps."""
        return self.leaves + self.gradients + self.saved + self.others


def memory_stats() -> MemoryStats:
    """Return what is held now.

    Notes
    -----
    It goes through all objects of the process, which takes some milliseconds; code that does not call
    it pays nothing. Only memory that is reachable from a tensor or the tape is counted: NumPy arrays
    of your own are in `resident` alone.

    Examples
    --------
    >>> import shardwise as sw
    >>> before = memory_stats()
    >>> w = sw.ones(1000, requires_grad=True)
    >>> y = w.exp()
    >>> now = memory_stats()
    >>> now.leaves - before.leaves, now.saved - before.saved
    (4000, 4000)
    """
    tensors: list[Tensor] = []
    nodes: list[Node] = []
    for each in gc.get_objects():
        kind = type(each)  # not isinstance, which would ask proxies for what they stand for
        if issubclass(kind, Tensor):
            tensors.append(each)
        elif kind is Node:
            nodes.append(each)
    leaves = [t for t in tensors if t.requires_grad and t.node is None]
    grads = [t.grad.data for t in tensors if t.grad is not None]
    saved = [array for node in nodes if type(node.saved) is tuple for array in node.saved]
    resident, peak = _of_process()
    seen: set[int] = set()  # in this order, memory counts as the first thing that it is
    return MemoryStats(
        leaves=_sum([tensor.data for tensor in leaves], seen),
        gradients=_sum(grads, seen),
        saved=_sum(saved, seen),
        others=_sum([tensor.data for tensor in tensors], seen),
        resident=resident,
        resident_peak=peak,
    )


def _sum(arrays: list[Any], seen: set[int]) -> int:
    total = 0
    for array in arrays:
        owner = _owner(array)
        if owner is not None and id(owner) not in seen:
            seen.add(id(owner))
            total += owner.nbytes
    return total


def _owner(array: Any) -> Any:
    """Return the array that holds the memory; None for numbers, and for arrays without data."""
    if not hasattr(array, "strides"):
        return None
    while hasattr(array.base, "strides") and hasattr(array.base, "base"):  # a memoryview has no base
        array = array.base
    return array


def _of_process() -> tuple[int, int]:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0, 0
    sizes = dict(line.split(":", 1) for line in lines if line.startswith(("VmRSS", "VmHWM")))
    resident, peak = [int(sizes.get(name, "0 kB").split()[0]) * 1024 for name in ("VmRSS", "VmHWM")]
    return resident, peak


class MemoryTrack:
    """What a block of code holds and held, in bytes: `current`, `peak`, and by module.

    `current` and `peak` count what Python and NumPy have allocated since the block began, gradients
    and whatever lies between the operations of a backward included; memory of devices is not in them.
    """

    def __init__(self) -> None:
        self._made: dict[str, int] = {}
        self._known: dict[int, weakref.ref[Array]] = {}
        self._start = 0
        self._final: tuple[int, int] | None = None

    @property
    def current(self) -> int:
        """Bytes held now, or at the end of the block; negative if more was freed than taken."""
        return self._read()[0]

    @property
    def peak(self) -> int:
        """The most bytes held at once since the beginning or the last `reset_peak`."""
        return self._read()[1]

    @property
    def by_module(self) -> dict[str, int]:
        """Bytes alive now by the path of the module in whose forward they were made, largest first.

        Results of operations and what these keep for backward; ``""`` is outside of modules.
        """
        held = [(path, size) for path, size in self._made.items() if size]
        return dict(sorted(held, key=lambda item: -item[1]))

    def reset_peak(self) -> None:
        """Start `peak` again from what is held now."""
        tracemalloc.reset_peak()

    def _read(self) -> tuple[int, int]:
        if self._final is not None:
            return self._final
        current, peak = tracemalloc.get_traced_memory()
        return current - self._start, peak - self._start

    def _begin(self) -> None:
        tracemalloc.reset_peak()
        self._start = tracemalloc.get_traced_memory()[0]

    def _end(self) -> None:
        self._final = self._read()

    def _door(self, function: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        result = function.apply(*args, **params)
        running = scope()
        path = "" if running is None or not running.stack else running.path()
        given = {id(_owner(arg.data)) for arg in args if isinstance(arg, Tensor)}
        for out in result if isinstance(result, tuple) else (result,):
            if isinstance(out, Tensor):
                kept = out.node.saved if out.node is not None and type(out.node.saved) is tuple else ()
                for array in (out.data, *kept):
                    self._note(_owner(array), path, given)
        return result

    def _note(self, owner: Any, path: str, given: set[int]) -> None:
        if owner is None or id(owner) in given or id(owner) in self._known:
            return
        key, size = id(owner), owner.nbytes

        def gone(_: object) -> None:
            del self._known[key]
            self._made[path] -= size

        self._known[key] = weakref.ref(owner, gone)
        self._made[path] = self._made.get(path, 0) + size


@contextmanager
def track_memory() -> Iterator[MemoryTrack]:
    """Watch a block of code: ``with track_memory() as memory: ...``.

    Yields
    ------
    MemoryTrack
        Its `current`, `peak` and `by_module`, inside of the block and, as they were at its end,
        behind it.

    Notes
    -----
    It stands on Python's `tracemalloc`, which NumPy reports its memory to, and which is of the whole
    process: other threads count as well. Python code runs slower by half or more inside of the block,
    NumPy's own work does not.

    Examples
    --------
    >>> import shardwise as sw
    >>> x = sw.ones(1000, requires_grad=True)
    >>> with track_memory() as memory:
    ...     y = (x * 2.0).exp()
    >>> memory.by_module, memory.peak >= 8000
    ({'': 4000}, True)
    """
    track = MemoryTrack()
    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start()
    track._begin()
    try:
        with intercept(track._door):
            yield track
    finally:
        track._end()
        if started:
            tracemalloc.stop()
