"""`Agreement`: what every stage gives for every microbatch, and who takes it: the same on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from shardwise.pipelining.meta import Meta, Value
from shardwise.pipelining.need import Event, Skips

__all__ = ["Agreement"]


@dataclass(frozen=True)
class Agreement:
    """What is known before a step.

    Attributes
    ----------
    values : dict of (int, int) to Value
        By stage and microbatch.
    draws : bool
        Whether a stage draws random bits.
    rows : tuple of int
        Of each microbatch.
    """

    values: Mapping[tuple[int, int], Value]
    draws: bool
    rows: tuple[int, ...]

    @cached_property
    def _ways(self) -> dict[tuple[int, int], tuple[str, ...]]:
        """(Source, target) -> names of the values that go past the stages between."""
        found: dict[tuple[int, int], set[str]] = {}
        for (target, i), value in self.values.items():
            for name in value.fetched:
                source = max(s for s in range(target) if name in self.values[s, i].stashed)
                found.setdefault((source, target), set()).add(name)
        return {way: tuple(sorted(names)) for way, names in sorted(found.items())}

    def fetched(self, stage: int) -> dict[int, tuple[str, ...]]:
        """Return which stages a stage takes stashed values from, and their names."""
        return {source: names for (source, target), names in self._ways.items() if target == stage}

    def stashed(self, stage: int) -> dict[int, tuple[str, ...]]:
        """Return which stages take values that a stage stashes, and their names."""
        return {target: names for (source, target), names in self._ways.items() if source == stage}

    def names(self, stage: int) -> tuple[str, ...]:
        """Return the names of a stage's values that any later stage takes."""
        return tuple(sorted({name for names in self.stashed(stage).values() for name in names}))

    @cached_property
    def skips(self) -> Skips:
        """Stage -> later stages that take values of it past those between."""
        found: dict[int, list[int]] = {}
        for source, target in self._ways:
            found.setdefault(source, []).append(target)
        return {source: tuple(targets) for source, targets in found.items()}

    def metas(self, event: Event) -> Sequence[Meta]:
        """Return what is known of the tensors that go from a stage to another."""
        kind, stage, i = event
        if kind == "F":
            return self.values[stage, i].metas
        if kind == "I":
            return [meta for meta in self.values[stage - 1, i].metas if meta.requires_grad]
        other = int(kind[2:])
        source, target = (stage, other) if kind[0] == "F" else (other, stage)
        stashed = self.values[source, i].stashed
        metas = [stashed[name] for name in self._ways[source, target]]
        return metas if kind[0] == "F" else [meta for meta in metas if meta.requires_grad]
