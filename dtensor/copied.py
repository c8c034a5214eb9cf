"""Copies in place of views: what an op that gives views gives where the values had to be moved.

A view changes with its base. A copy cannot, so it is good only as long as nobody writes to what it was copied
from; read after that, it says so on all ranks, and is never silently old.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shardwise.backend.array import Array
from shardwise.backend.errors import LayoutError
from shardwise.dtensor.rule.key import by_dim
from shardwise.dtensor.sharded_array import ShardedArray, kept_array
from shardwise.tensor.ops.key import is_basic, plain_index
from shardwise.tensor.tape import Version

__all__ = ["Copied", "Writes", "copied_from", "note_write", "stand_behind"]

_MOST = 64  # writes to one tensor that are told apart; from then on a write may be anywhere


class Writes:
    """What was written of one tensor since copies of it are about: which count of its version, and where."""

    def __init__(self) -> None:
        self.keys: dict[int, tuple[Any, ...]] = {}


class _Source(NamedTuple):
    """What must not be written for a copy to be good: `key` of a tensor, or all of it if that is None."""

    version: Version
    writes: Writes
    shape: tuple[int, ...]
    key: tuple[Any, ...] | None


class Copied:
    """A part that was copied, with what it was copied from; stands where a part that comes later would."""

    stays = True  # what `wait` gives is not put in the place of this

    def __init__(self, name: str, local: Array, sources: dict[_Source, int]) -> None:
        self.name = name
        self.local = local
        self.sources = sources

    def wait(self) -> Array:
        """Return the part, unless what it was copied from was written since.

        Raises
        ------
        LayoutError
            It was: on all ranks, since all write the same.
        """
        for source, count in self.sources.items():
            if source.version.count != count:
                self._look(source, count)
        return self.local

    def _look(self, source: _Source, count: int) -> None:
        for at in range(count + 1, source.version.count + 1):
            key = source.writes.keys.get(at)
            if source.key is None or key is None or _meet(source.key, key, source.shape):
                raise LayoutError(
                    f"the tensor that {self.name} gave of one of shape {source.shape} is old: it is a copy, "
                    "since its values were on other ranks, and that tensor was written since. A view "
                    "would have changed with it. Take it again after the write, or clone() it before, if the "
                    "old values are meant"
                )
        self.sources[source] = source.version.count


def copied_from(base: Any, copy: Any, name: str, key: Any = None) -> None:
    """Note that `copy` has values that `base` had, where a view was asked for.

    `key` tells which, if known. Writes through another view of `base` may be anywhere.
    """
    if base.writes is None:
        base.writes = Writes()
    told = _bounds(key, base.shape)
    sources = {_Source(base.version, base.writes, base.shape, told): base.version.count}
    before = kept_array(base.data)
    if isinstance(before, Copied):
        sources |= before.sources
    copy.copied_by = name
    copy.data = _guarded(copy.data, Copied(name, copy.data.local, sources))


def stand_behind(view: Any, base: Any) -> None:
    """Let a view of a copy be as good as that copy is."""
    before = kept_array(base.data)
    if isinstance(before, Copied) and not isinstance(kept_array(view.data), Copied):
        view.data = _guarded(view.data, Copied(before.name, view.data.local, dict(before.sources)))


def _guarded(data: ShardedArray, copied: Copied) -> ShardedArray:
    guarded = ShardedArray.__new__(ShardedArray)
    guarded.layout, guarded.pending = data.layout, copied
    return guarded


def note_write(base: Any, key: Any) -> None:
    """Remember where a write by index, the last one, has gone, if copies of the tensor may ask."""
    if base.writes is None:
        return
    told = _bounds(plain_index(key), base.shape)
    if told is not None:
        if len(base.writes.keys) >= _MOST:
            base.writes.keys.clear()
        base.writes.keys[base.version.count] = told


def _bounds(key: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Return per dim the range of places that an index names; None where that is more than ranges."""
    if key is None or not is_basic(key):
        return None
    ranges: list[range] = []
    for part in by_dim(key, len(shape)):
        if isinstance(part, slice):
            ranges.append(range(*part.indices(shape[len(ranges)])))
        elif part is not None and part is not Ellipsis:
            place = int(part) % max(shape[len(ranges)], 1)
            ranges.append(range(place, place + 1))
    return tuple(ranges)


def _meet(a: tuple[Any, ...], b: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Tell whether two boxes of places may have one in common; steps are not told apart."""
    for one, other in zip(a, b, strict=False):
        if not len(one) or not len(other):
            return False
        if max(min(one[0], one[-1]), min(other[0], other[-1])) > min(
            max(one[0], one[-1]), max(other[0], other[-1])
        ):
            return False
    return True
