"""`Tied`: a parameter that several stages share, such as an embedding that is also the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ScheduleError
from shardwise.collectives import all_reduce, broadcast, get_group
from shardwise.pipelining.stage import PipelineStage
from shardwise.tensor import Tensor

__all__ = ["Tied"]


@dataclass(frozen=True, slots=True)
class Tied:
    """One parameter under several names.

    Parameters
    ----------
    places : tuple of (int, str)
        Stage, and name of the parameter in the stage's module; the first one owns the values.

    Examples
    --------
    >>> Tied(((0, "embedding.weight"), (3, "head.weight")))
    Tied(places=((0, 'embedding.weight'), (3, 'head.weight')))

    Notes
    -----
    Gradients are added up once per step, behind the last backward; on a rank that has both stages the module
    may hold one parameter twice, which needs nothing more.
    """

    places: tuple[tuple[int, str], ...]

    def held(self, stages: Mapping[int, PipelineStage]) -> list[Tensor]:
        """Return the parameters of this rank's stages, each once."""
        found: dict[int, Tensor] = {}
        for stage, name in self.places:
            if stage not in stages:
                continue
            named = dict(stages[stage].submodule.named_parameters())
            if name not in named:
                raise ScheduleError(
                    f"tied: stage {stage} has no parameter {name!r}; it has "
                    f"{', '.join(sorted(named)) or 'none'}"
                )
            found.setdefault(id(named[name]), named[name])
        return list(found.values())

    def begin(
        self, stages: Mapping[int, PipelineStage], placement: Mapping[int, int], ranks: Sequence[int]
    ) -> None:
        """Give all holders the values of the owner."""
        held = self.held(stages)
        owner = self.places[0][0]
        members = self._members(placement, ranks)
        if not held:
            return
        data = held[0].data
        if owner in stages:
            data = dict(stages[owner].submodule.named_parameters())[self.places[0][1]].data
        learns = [parameter.requires_grad for parameter in held]
        if len(members) > 1:
            data = broadcast(data, ranks[placement[owner]], get_group(members))
            counts = np.array([sum(learns), len(learns)])
            learning, all_ = all_reduce(counts, group=get_group(members)).tolist()
        else:
            learning, all_ = sum(learns), len(learns)
        if learning not in (0, all_):
            raise ScheduleError(
                f"tied: {self.places} require grad in {learning} of {all_} places; they are one parameter, "
                "which learns or does not: call requires_grad_ alike on all of them"
            )
        for parameter in held:
            if parameter.data.shape != data.shape:
                raise ScheduleError(
                    f"tied: {self.places} have the shapes {parameter.shape} and {tuple(data.shape)}"
                )
            if parameter.data is not data:
                parameter.data[...] = data

    def set_aside(self, stages: Mapping[int, PipelineStage]) -> Array | None:
        """Take away and return the gradient of earlier steps, which is added up already."""
        held = self.held(stages)
        before = held[0].grad if held else None
        for parameter in held:
            parameter.grad = None
        return None if before is None else before.data

    def add_up(
        self,
        stages: Mapping[int, PipelineStage],
        placement: Mapping[int, int],
        ranks: Sequence[int],
        before: Array | None,
    ) -> None:
        """Give all holders the sum of their gradients of this step, and of those `before`."""
        held = self.held(stages)
        if not held or not held[0].requires_grad:
            return
        total = np.zeros_like(held[0].data)
        for parameter in held:
            if parameter.grad is not None:
                total += parameter.grad.data
        members = self._members(placement, ranks)
        if len(members) > 1:
            total = all_reduce(total, group=get_group(members))
        if before is not None:
            total += before
        for parameter in held:
            parameter.grad = Tensor(total.copy())

    def _members(self, placement: Mapping[int, int], ranks: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted({ranks[placement[stage]] for stage, _ in self.places}))
