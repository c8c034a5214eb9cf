"""Who will send what: agreed between the stages before a step, by running them without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from shardwise.backend.errors import ScheduleError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives import all_gather, get_group, rank, recv_object, send_object
from shardwise.pipelining.stage import Meta, PipelineStage, Value
from shardwise.tensor import Tensor
from shardwise.tensor.tree import tree_flatten, tree_unflatten

__all__ = ["Agreement", "agree", "shared_signature", "signature"]

_TAG = (1 << 20) - 1  # of messages of the handshake: the last one that there is

Agreement = tuple[dict[tuple[int, int], Value], bool]
"""``(stage, microbatch) -> Value`` as far as this rank knows it, and whether some stage draws bits."""


def signature(chunks: Sequence[Any]) -> tuple[Any, ...]:
    """Return what must be alike for an agreement to hold: shapes, dtypes and structure of arguments."""
    found = []
    for chunk in chunks:
        leaves, tree = tree_flatten(chunk)
        found.append((tree, tuple([_told(leaf) for leaf in leaves])))
    return tuple(found)


def shared_signature(own: tuple[Any, ...], ranks: Sequence[int]) -> tuple[int, ...]:
    """Return what tells the signatures of all ranks of a pipeline from others, the same on all of them.

    Notes
    -----
    One all-gather of eight bytes per rank.
    """
    told = int.from_bytes(blake2b(repr(own).encode(), digest_size=8).digest(), "little", signed=True)
    if len(ranks) == 1:
        return (told,)
    return tuple(all_gather(np.array([told]), get_group(tuple(sorted(ranks)))).tolist())


def _told(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return Meta.of(leaf)
    return (tuple(leaf.shape), str(leaf.dtype)) if hasattr(leaf, "dtype") else type(leaf)


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

    Notes
    -----
    One small message from each stage to the next one on another rank, and one around with what came out.
    """
    count, here = max(placement) + 1, rank()
    values: dict[tuple[int, int], Value] = {}
    draws = False
    for stage in range(count):
        if ranks[placement[stage]] != here:
            continue
        before: list[Value] | None = None
        if stage:
            owner = ranks[placement[stage - 1]]
            if owner != here:
                received: Any = recv_object(owner, _TAG)
                before, drew = received
                draws = draws or drew
                values.update({(stage - 1, i): value for i, value in enumerate(before or ())})
            else:
                before = [values[stage - 1, i] for i in range(len(kwargs))]
        given = []
        for i, named in enumerate(kwargs):
            if before is None:
                if args is None:
                    raise ScheduleError(f"rank {here} has stage 0 and needs the arguments of the model")
                inputs = args[i]
            else:
                inputs = stages[stage].put_together(before[i], [_shaped(meta) for meta in before[i].metas])
            value, drew = stages[stage].infer(_emptied(inputs), _emptied(named))
            draws = draws or drew
            values[stage, i] = value
            given.append(value)
        if stage < count - 1 and ranks[placement[stage + 1]] != here:
            send_object((given, draws), ranks[placement[stage + 1]], _TAG)
    return values, _last_says(draws, placement, ranks, here)


def _last_says(draws: bool, placement: Mapping[int, int], ranks: Sequence[int], here: int) -> bool:
    """Tell all ranks what the last stage's rank knows of all stages before it."""
    last = ranks[placement[max(placement)]]
    if here == last:
        for other in ranks:
            if other != here:
                send_object(draws, other, _TAG)
        return draws
    said: Any = recv_object(last, _TAG)
    return bool(said)


def _shaped(meta: Meta) -> Tensor:
    empty: Any = ShapeArray(meta.shape, meta.dtype)
    tensor = Tensor(empty)
    tensor.requires_grad = meta.requires_grad
    return tensor


def _emptied(values: Any) -> Any:
    """Return a tree with arrays without data in place of its tensors' and arrays."""
    leaves, tree = tree_flatten(values)
    return tree_unflatten(
        tree, [_shaped(Meta.of(leaf)) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    )
