"""`Execution`: one step of a lowered program on this rank's stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ScheduleError
from shardwise.collectives import Work, irecv, isend
from shardwise.pipelining.action import Action
from shardwise.pipelining.stage import PipelineStage, Value
from shardwise.tensor import Tensor, random
from shardwise.tensor.mode import no_grad

__all__ = ["Execution"]

_TAGS = (1 << 20) - 1
_SLOTS = 16


class Execution:
    """Runs the actions of one rank, in order, for one step.

    Parameters
    ----------
    actions : sequence of Action
        Lowered.
    stages : dict of int to PipelineStage
        Those of this rank.
    placement, ranks
        Stage -> place in the pipeline -> global rank.
    values : dict
        ``(stage, microbatch) -> Value``; see `handshake`.
    args, kwargs : sequence
        Per microbatch.
    loss : callable, optional
        ``loss(output, target)``.
    targets : sequence, optional
    weights : sequence of float
        What each microbatch's loss counts.
    train : bool
        Whether there are backwards.
    draw : int or None
        Number of the forward that random bits belong to; None where no stage draws any.
    """

    def __init__(
        self,
        actions: Sequence[Action],
        stages: Mapping[int, PipelineStage],
        placement: Mapping[int, int],
        ranks: Sequence[int],
        values: Mapping[tuple[int, int], Value],
        *,
        args: Sequence[tuple[Any, ...]] | None,
        kwargs: Sequence[dict[str, Any]],
        loss: Callable[[Any, Any], Tensor] | None,
        targets: Sequence[Any] | None,
        weights: Sequence[float],
        windows: Sequence[tuple[int, int]],
        train: bool,
        draw: int | None,
    ) -> None:
        self.actions, self.stages, self.placement, self.ranks = actions, stages, placement, ranks
        self.values, self.args, self.kwargs = values, args, kwargs
        self.loss, self.targets, self.weights, self.windows = loss, targets, weights, windows
        self.train, self.draw = train, draw
        self.count = max(placement) + 1
        self.outputs: dict[int, Any] = {}
        self.losses: dict[int, Tensor] = {}
        self._sent: list[tuple[Work[None], Any]] = []
        self._coming: dict[tuple[str, int, int], list[Work[Array]]] = {}
        self._left: dict[tuple[str, int, int], list[Any]] = {}  # handed from stage to stage on this rank
        self._received: dict[tuple[int, int], list[Tensor]] = {}

    def run(self) -> None:
        """Run them all.

        Raises
        ------
        Whatever a stage raises; the other ranks are stopped by the world.
        """
        do: Mapping[str, Callable[[Action], None]] = {
            "F": self._forward, "B": self._backward, "I": self._backward, "W": self._weight,
            "SEND_F": self._send_forward, "RECV_F": self._receive_forward,
            "SEND_B": self._send_backward, "RECV_B": self._receive_backward,
            "UNSHARD": self._shard, "RESHARD": self._shard, "REDUCE_GRAD": self._shard,
        }  # fmt: skip
        with nullcontext() if self.train else no_grad():
            for action in self.actions:
                for part in action.compute:
                    do[part.kind](part)
        for work, _ in self._sent:
            work.wait()

    # ---- computing

    def _forward(self, action: Action) -> None:
        stage, i = self.stages[action.stage], _number(action)
        received: list[Tensor] = []
        if stage.is_first:
            assert self.args is not None
            args = self.args[i]
        else:
            before = self.values[action.stage - 1, i]
            received = self._inputs(action.stage, i, before)
            args = stage.put_together(before, received)
        self._received[action.stage, i] = received
        scope = random.scope() if self.draw is None else random.Scope(stage.submodule.module_paths, self.draw)
        inside = nullcontext() if scope is None else random.enter(scope)
        with inside, random.row_window(*self.windows[i]):
            result = stage.forward(i, args, self.kwargs[i], received)
        leaves, _ = stage.checked(result)
        if stage.is_last:
            self.outputs[i] = result
            if self.train and (self.loss is None or self.targets is None):
                raise ScheduleError(
                    "a step with backwards needs loss_fn= of the pipeline and target= on the rank of the "
                    "last stage; without them call eval()"
                )
            if self.loss is not None and self.targets is not None:
                leaves = [self._lost(result, i)]
        if self.train:
            stage.leave(i, leaves)
        if not stage.is_last:
            self._left["F", action.stage, i] = leaves

    def _lost(self, result: Any, i: int) -> Tensor:
        assert self.loss is not None
        assert self.targets is not None
        loss = self.loss(result, self.targets[i])
        self.losses[i] = loss
        return loss

    def _inputs(self, stage: int, i: int, before: Value) -> list[Tensor]:
        """Return what came from the stage before, as leaves of this stage's tape."""
        if ("F", stage - 1, i) in self._left:
            arrays = [each.data for each in self._left.pop(("F", stage - 1, i))]
        else:
            arrays = [work.wait() for work in self._coming.pop(("F", stage - 1, i))]
        found = []
        for array, meta in zip(arrays, before.metas, strict=True):
            tensor = Tensor(array)
            tensor.requires_grad = meta.requires_grad and self.train
            found.append(tensor)
        return found

    def _backward(self, action: Action) -> None:
        stage, i = self.stages[action.stage], _number(action)
        gradients = self._gradients(stage, i)
        found = stage.backward(i, gradients) if action.kind == "B" else stage.backward_input(i, gradients)
        if stage.is_first:
            return
        received = self._received.pop((action.stage, i))
        arrays = iter(found)
        self._left["B", action.stage, i] = [
            _or_zeros(next(arrays), each) for each in received if each.requires_grad
        ]

    def _gradients(self, stage: PipelineStage, i: int) -> list[Any]:
        """Return the gradients of a stage's outputs: of the loss, or what came from the stage behind."""
        if stage.is_last:
            loss = self.losses[i]
            return [np.full_like(loss.data, self.weights[i])] if loss.requires_grad else []
        key = ("B", stage.stage_index + 1, i)
        if key in self._left:
            return self._left.pop(key)
        return [work.wait() for work in self._coming.pop(key, [])]

    def _weight(self, action: Action) -> None:
        self.stages[action.stage].backward_weight(_number(action))

    # ---- sending

    def _send_forward(self, action: Action) -> None:
        key = ("F", action.stage, _number(action))
        self._send([each.data for each in self._left.pop(key)], key, action.stage + 1)

    def _send_backward(self, action: Action) -> None:
        key = ("B", action.stage, _number(action))
        self._send(self._left.pop(key), key, action.stage - 1)

    def _send(self, arrays: Sequence[Array], key: tuple[str, int, int], to: int) -> None:
        for slot, array in enumerate(arrays):
            dense = np.ascontiguousarray(array) if array.ndim else array
            self._sent.append((isend(dense, self.ranks[self.placement[to]], self._tag(key, slot)), dense))
        while self._sent and self._sent[0][0].is_completed():
            self._sent.pop(0)[0].wait()

    def _receive_forward(self, action: Action) -> None:
        before, i = action.stage - 1, _number(action)
        key = ("F", before, i)
        owner = self.ranks[self.placement[before]]
        self._coming[key] = [
            irecv(meta.shape, meta.dtype, owner, self._tag(key, slot))
            for slot, meta in enumerate(self.values[before, i].metas)
        ]

    def _receive_backward(self, action: Action) -> None:
        i = _number(action)
        key = ("B", action.stage + 1, i)
        owner = self.ranks[self.placement[action.stage + 1]]
        metas = [meta for meta in self.values[action.stage, i].metas if meta.requires_grad]
        self._coming[key] = [
            irecv(meta.shape, meta.dtype, owner, self._tag(key, slot)) for slot, meta in enumerate(metas)
        ]

    def _tag(self, key: tuple[str, int, int], slot: int) -> int:
        kind, stage, i = key
        place = (i * self.count + stage) * 2 + (kind == "B")
        return (place * _SLOTS + slot % _SLOTS) % _TAGS

    def _shard(self, action: Action) -> None:
        sharded = self.stages[action.stage].sharded
        if sharded is not None:
            {"UNSHARD": sharded.unshard, "RESHARD": sharded.reshard, "REDUCE_GRAD": sharded.reduce_grad}[
                action.kind
            ]()


def _number(action: Action) -> int:
    assert action.microbatch is not None
    return action.microbatch


def _or_zeros(gradient: Array | None, like: Tensor) -> Array:
    return np.zeros_like(like.data) if gradient is None else gradient
