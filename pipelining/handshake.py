"""Who will send what: agreed between the stages before a step, by running them without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from shardwise.backend.errors import ScheduleError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives import (
    ProcessGroup,
    all_gather,
    all_gather_object,
    implicit,
    rank,
    recv_object,
    send_object,
)
from shardwise.pipelining.agreement import Agreement
from shardwise.pipelining.meta import Meta, Value
from shardwise.pipelining.microbatch import rows
from shardwise.pipelining.stage import PipelineStage, emptied
from shardwise.tensor import Tensor
from shardwise.tensor.tree import tree_flatten, tree_unflatten

__all__ = ["agree", "shared_signature", "signature"]

_TAG = (1 << 20) - 1  # of messages of the handshake: the last one that there is


def signature(chunks: Sequence[Any]) -> tuple[Any, ...]:
    """Return what must be alike for an agreement to hold: shapes, dtypes and structure of arguments."""
    found = []
    for chunk in chunks:
        leaves, tree = tree_flatten(chunk)
        found.append((tree, tuple([_told(leaf) for leaf in leaves])))
    return tuple(found)


def shared_signature(own: tuple[Any, ...], failure: str | None, group: ProcessGroup) -> tuple[int, ...]:
    """Return what tells the signatures of all ranks of a pipeline from others, the same on all of them.

    Parameters
    ----------
    own : tuple
    failure : str or None
        What is wrong with this rank's arguments.
    group : ProcessGroup
        Of the ranks.

    Raises
    ------
    ScheduleError
        Something is wrong on a rank: on all of them, with all that is.

    Notes
    -----
    One all-gather of sixteen bytes per rank.
    """
    told = int.from_bytes(blake2b(repr(own).encode(), digest_size=8).digest(), "little", signed=True)
    if group.size == 1:
        if failure is not None:
            raise ScheduleError(failure)
        return (told,)
    with implicit():
        all_told = all_gather(np.array([told, failure is not None]), group)
        if all_told[1::2].any():
            failures = all_gather_object(failure, group)
            found = [f"rank {r}: {f}" for r, f in zip(group.ranks, failures, strict=True) if f is not None]
            raise ScheduleError("; ".join(found))
    return tuple(all_told[::2].tolist())


def _told(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return Meta.of(leaf)
    return (tuple(leaf.shape), str(leaf.dtype)) if hasattr(leaf, "dtype") else type(leaf)


@dataclass(slots=True)
class _Told:
    """What goes from stage to stage: all that is known so far."""

    values: dict[tuple[int, int], Value] = field(default_factory=dict)
    rows: tuple[int, ...] = ()
    draws: bool = False
    failure: str | None = None


def agree(
    stages: Mapping[int, PipelineStage],
    placement: Mapping[int, int],
    ranks: Sequence[int],
    args: Sequence[tuple[Any, ...]] | None,
    kwargs: Sequence[dict[str, Any]],
) -> Agreement:
    """Find out what every stage gives for every microbatch.

    Parameters
    ----------
    stages : dict of int to PipelineStage
        Those of this rank.
    placement : dict of int to int
        Stage -> place in the pipeline.
    ranks : sequence of int
        Global rank of each place.
    args : sequence of tuple
        Of the first stage, per microbatch; None on other ranks.
    kwargs : sequence of dict
        Of this rank's stages, per microbatch.

    Raises
    ------
    ScheduleError
        A stage cannot run: on all ranks, with the stage, its rank, and what it raised.

    Notes
    -----
    One small message from each stage to the next one on another rank, and one around with what came out.
    """
    count, here = max(placement) + 1, rank()
    told, reason = _Told(), None
    with implicit():
        for stage in range(count):
            if ranks[placement[stage]] != here:
                continue
            before = ranks[placement[stage - 1]] if stage else here
            if before != here:
                received: Any = recv_object(before, _TAG)
                told = received
            if told.failure is None:
                try:
                    _infer(told, stages[stage], args, kwargs)
                except Exception as error:
                    reason = error
                    told.failure = f"stage {stage} on rank {here} cannot run: {type(error).__name__}: {error}"
            if stage < count - 1 and ranks[placement[stage + 1]] != here:
                send_object(told, ranks[placement[stage + 1]], _TAG)
        told = _last_says(told, ranks[placement[count - 1]], ranks, here)
    if told.failure is not None:
        raise ScheduleError(told.failure) from reason
    return Agreement(told.values, told.draws, told.rows)


def _infer(
    told: _Told,
    stage: PipelineStage,
    args: Sequence[tuple[Any, ...]] | None,
    kwargs: Sequence[dict[str, Any]],
) -> None:
    """Run a stage without data, once for all microbatches that look alike."""
    index = stage.stage_index
    known: dict[Any, tuple[Value, bool]] = {}
    if stage.is_first:
        if args is None:
            raise ScheduleError("it needs the arguments of the model")
        told.rows = tuple([rows((args[i], kwargs[i])) for i in range(len(kwargs))])
    for i, named in enumerate(kwargs):
        stashed = {
            name: meta for s in range(index) for name, meta in told.values[s, i].stashed.items()
        }  # of two with one name, the later one
        if stage.is_first:
            assert args is not None
            inputs, alike = args[i], signature([args[i]])
        else:
            before = told.values[index - 1, i]
            shaped = [_shaped(meta, stage) for meta in before.metas]
            inputs, alike = stage.put_together(before, shaped), (before.metas, before.tree)
        key = repr((alike, signature([named]), sorted(stashed.items())))
        if key not in known:
            incoming = {name: _shaped(meta, stage) for name, meta in stashed.items()}
            known[key] = stage.infer(_emptied(inputs), _emptied(named), incoming)
        told.values[index, i], drew = known[key]
        told.draws = told.draws or drew


def _last_says(told: _Told, last: int, ranks: Sequence[int], here: int) -> _Told:
    """Tell all ranks what the last stage's rank knows of all stages."""
    if here == last:
        for other in ranks:
            if other != here:
                send_object(told, other, _TAG)
        return told
    said: Any = recv_object(last, _TAG)
    found: _Told = said
    return found


def _shaped(meta: Meta, stage: PipelineStage) -> Tensor:
    empty: Any = ShapeArray(meta.local_shape, meta.dtype)
    return meta.tensor(empty, stage.mesh, True)


def _emptied(values: Any) -> Any:
    """Return a tree with arrays without data in place of its tensors'."""
    leaves, tree = tree_flatten(values)
    return tree_unflatten(
        tree, [_without_data(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    )


def _without_data(tensor: Tensor) -> Tensor:
    found = tensor.wrap(emptied(tensor.data))
    found.requires_grad = tensor.requires_grad
    return found
