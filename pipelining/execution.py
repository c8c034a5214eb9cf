"""`Execution`: one step of a lowered program on this rank's stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ScheduleError
from shardwise.dtensor import DTensor
from shardwise.pipelining.action import Action
from shardwise.pipelining.agreement import Agreement
from shardwise.pipelining.batch import Batch
from shardwise.pipelining.edge import Edges, dense
from shardwise.pipelining.meta import Meta, part_of
from shardwise.pipelining.need import Event, carried
from shardwise.pipelining.recording import Recording
from shardwise.pipelining.skip import Box, carrying
from shardwise.pipelining.stage import PipelineStage
from shardwise.tensor import Tensor, random
from shardwise.tensor.mode import no_grad
from shardwise.tensor.tree import tree_flatten, tree_unflatten

__all__ = ["Execution"]


class Execution:
    """Runs the actions of one rank, in order, for one step.

    Parameters
    ----------
    actions : sequence of Action
        Lowered.
    stages : dict of int to PipelineStage
        Those of this rank.
    agreement : Agreement
    edges : Edges
    batch : Batch
        What goes in, and what losses count.
    here : int
        Global rank, for messages.
    train : bool
        Whether there are backwards.
    keep_outputs : bool
        Whether results are asked for.
    sync_tied : callable
        ``sync_tied(k)`` adds up the gradients of the k-th tied parameter.
    draw : int or None
        Number of the forward that random bits belong to; None where no stage draws any.

    Attributes
    ----------
    outputs, losses : dict of int to value
        By microbatch, of those whose last stage is here.
    recording : Recording
    """

    def __init__(
        self,
        actions: Sequence[Action],
        stages: Mapping[int, PipelineStage],
        agreement: Agreement,
        edges: Edges,
        batch: Batch,
        *,
        here: int,
        train: bool,
        keep_outputs: bool,
        sync_tied: Callable[[int], None],
        draw: int | None,
    ) -> None:
        self.actions, self.stages, self.agreement = actions, stages, agreement
        self.edges, self.batch = edges, batch
        self.here, self.train, self.keep_outputs, self.draw = here, train, keep_outputs, draw
        self.sync_tied = sync_tied
        self.outputs: dict[int, Any] = {}
        self.losses: dict[int, Tensor] = {}
        self.recording = Recording()
        self._where = ""
        self._waited = 0.0
        self._left: dict[Event, list[Any]] = {}  # made here, and not yet sent or taken
        self._received: dict[tuple[int, int], list[tuple[Event, Meta, Tensor]]] = {}
        self._stashed: dict[tuple[int, int], list[str]] = {}  # names of what the backward has to ask for
        self._remaining: dict[int, int] = {}  # backwards of each stage that are still to come
        for action in actions:
            for part in action.compute:
                if part.kind in ("B", "W"):
                    self._remaining[part.stage] = self._remaining.get(part.stage, 0) + 1

    def run(self) -> None:
        """Run them all.

        Raises
        ------
        Whatever a stage raises; the other ranks are stopped by the world.
        """
        do: Mapping[str, Callable[[Action], None]] = {
            "F": self._forward, "B": self._backward, "I": self._backward, "W": self._weight,
            "R": self._recompute, "SEND_F": self._send, "SEND_B": self._send,
            "RECV_F": self._receive, "RECV_B": self._receive, "UNSHARD": self._unshard,
            "RESHARD": self._reshard, "REDUCE_GRAD": self._reduce, "SYNC_TIED": self._sync,
        }  # fmt: skip
        self.edges.begin()
        actions, sent = self.actions, set[int]()
        with nullcontext() if self.train else no_grad():
            for place, action in enumerate(actions):
                if place in sent:
                    continue
                self._where = f"rank {self.here} at {action} (place {place})"
                begin, self._waited = perf_counter(), 0.0
                for part in action.compute:
                    do[part.kind](part)
                    if action.parts and part is action.parts[0]:
                        # What the first of two has made need not wait for the second.
                        sent |= self._send_early(place, part)
                self.recording.add(place, action, begin, self._waited, perf_counter())
            self.edges.finish()

    # ---- forward

    def _forward(self, action: Action) -> None:
        stage, i = self.stages[action.stage], _number(action)
        values = self.agreement.values
        received: list[tuple[Event, Meta, Tensor]] = []
        if stage.is_first:
            args = self.batch.arguments(i)
        else:
            before = values[action.stage - 1, i]
            received = self._take(("F", action.stage - 1, i), before.metas, stage)
            args = stage.put_together(before, [tensor for _, _, tensor in received])
        incoming: dict[str, Tensor] = {}
        for source, names in self.agreement.fetched(action.stage).items():
            stashed = values[source, i].stashed
            found = self._take((f"F>{action.stage}", source, i), [stashed[name] for name in names], stage)
            incoming.update({name: tensor for name, (_, _, tensor) in zip(names, found, strict=True)})
            received += found
        box = Box(incoming)
        with self._random(stage), random.row_window(*self.batch.windows[i]), carrying(box):
            result = stage.forward(i, args, self.batch.kwargs[i], [tensor for _, _, tensor in received])
        leaves, _ = stage.checked(result)
        if stage.is_last:
            leaves = self._end(result, leaves, i)
        else:
            self._left["F", action.stage, i] = [part_of(leaf) for leaf in leaves]
        for target, names in self.agreement.stashed(action.stage).items():
            values_left = [self._stashed_value(box, name, action) for name in names]
            self._left[f"F>{target}", action.stage, i] = [part_of(value) for value in values_left]
        if self.train:
            names = self.agreement.names(action.stage)
            self._received[action.stage, i] = received
            self._stashed[action.stage, i] = [n for n in names if box.left[n].requires_grad]
            stage.leave(i, [*leaves, *(box.left[name] for name in names)])

    def _stashed_value(self, box: Box, name: str, action: Action) -> Tensor:
        if name not in box.left:
            raise ScheduleError(
                f"{self._where}: the stage did not stash {name!r}, which it did when it ran without data; "
                "stash the same values in every forward"
            )
        return box.left[name]

    def _random(self, stage: PipelineStage) -> AbstractContextManager[None]:
        scope = random.scope() if self.draw is None else random.Scope(stage.module.module_paths, self.draw)
        return nullcontext() if scope is None else random.enter(scope)

    def _end(self, result: Any, leaves: list[Tensor], i: int) -> list[Tensor]:
        """Keep the result of the last stage; return where the backward begins: at the loss."""
        if self.keep_outputs:
            self.outputs[i] = _detached(result) if self.train else result
        loss = self.batch.loss_of(result, i)
        if loss is None:
            return leaves
        self.losses[i] = loss
        return [loss]

    def _take(
        self, event: Event, metas: Sequence[Meta], stage: PipelineStage
    ) -> list[tuple[Event, Meta, Tensor]]:
        """Return what came from another stage, as leaves of this stage's tape."""
        arrays = self._arrays(event)
        return [
            (event, meta, meta.tensor(array, stage.mesh, self.train))
            for array, meta in zip(arrays, metas, strict=True)
        ]

    def _arrays(self, event: Event) -> list[Array]:
        """Return what was made for a stage here, or came for it from another rank."""
        if event in self._left:
            return self._left.pop(event)
        begin = perf_counter()
        arrays = self.edges.take(event, self._where)
        self._waited += perf_counter() - begin
        return arrays

    # ---- backward

    def _backward(self, action: Action) -> None:
        stage, i = self.stages[action.stage], _number(action)
        gradients = self._gradients(stage, i)
        if action.kind == "B":
            found = stage.backward(i, gradients, self._is_last(action.stage))
        else:
            found = stage.backward_input(i, gradients)
        gradient = iter(found)
        if not stage.is_first:
            self._left["I", action.stage, i] = []
        for source in self.agreement.fetched(action.stage):
            self._left[f"I>{source}", action.stage, i] = []
        for event, meta, tensor in self._received.pop((action.stage, i)):
            kind, source, _ = event
            back: Event = ("I" if kind == "F" else f"I>{source}", action.stage, i)
            if tensor.requires_grad:
                self._left[back].append(_conformed(next(gradient), meta, tensor))

    def _gradients(self, stage: PipelineStage, i: int) -> list[Any]:
        """Return the gradients of a stage's outputs: of the loss, or what came from the stages behind."""
        index = stage.stage_index
        if stage.is_last:
            loss = self.losses[i]
            seed = loss.wrap(np.full_like(loss.data, self.batch.weights[i]))
            found = [seed] if loss.requires_grad else []
        else:
            metas = [meta for meta in self.agreement.values[index, i].metas if meta.requires_grad]
            arrays = self._arrays(("I", index + 1, i))
            found = [meta.tensor(array, stage.mesh, False) for array, meta in zip(arrays, metas, strict=True)]
        names = self._stashed.pop((index, i))
        if not self.agreement.stashed(index):
            return found
        stashed, sums = self.agreement.values[index, i].stashed, dict[str, Any]()
        for target, wanted in self.agreement.stashed(index).items():  # ascending: the same sum in every run
            arrays = self._arrays((f"I>{index}", target, i))
            for name, array in zip([n for n in wanted if n in names], arrays, strict=True):
                sums[name] = sums[name] + array if name in sums else array
        return found + [stashed[name].tensor(sums[name], stage.mesh, False) for name in names]

    def _weight(self, action: Action) -> None:
        self.stages[action.stage].backward_weight(_number(action), self._is_last(action.stage))

    def _is_last(self, stage: int) -> bool:
        self._remaining[stage] -= 1
        return not self._remaining[stage]

    def _recompute(self, action: Action) -> None:
        self.stages[action.stage].recompute(_number(action))

    # ---- between ranks

    def _send(self, action: Action) -> None:
        event = carried(action)
        self.edges.send(event, [dense(array) for array in self._left.pop(event)])

    def _send_early(self, place: int, part: Action) -> set[int]:
        sent = set[int]()
        for next_ in range(place + 1, len(self.actions)):
            action = self.actions[next_]
            if not action.kind.startswith("SEND") or carried(action) not in self._left:
                break
            begin = perf_counter()
            self._send(action)
            self.recording.add(next_, action, begin, 0.0, perf_counter())
            sent.add(next_)
        return sent

    def _receive(self, action: Action) -> None:
        self.edges.expect(carried(action))

    def _unshard(self, action: Action) -> None:
        sharded = self.stages[action.stage].sharded
        if sharded is not None:
            sharded.unshard()

    def _reshard(self, action: Action) -> None:
        sharded = self.stages[action.stage].sharded
        if sharded is not None:
            sharded.reshard()

    def _reduce(self, action: Action) -> None:
        sharded = self.stages[action.stage].sharded
        if sharded is not None:
            sharded.reduce_grad()

    def _sync(self, action: Action) -> None:
        self.sync_tied(action.stage)


def _number(action: Action) -> int:
    assert action.microbatch is not None
    return action.microbatch


def _conformed(gradient: Any, meta: Meta, like: Tensor) -> Array:
    """Return this rank's part of a gradient, in the layout of what it is the gradient of; zeros for none."""
    if gradient is None:
        return np.zeros_like(part_of(like))
    if meta.placements is not None and isinstance(gradient, DTensor):
        gradient = gradient.redistribute(gradient.device_mesh, list(meta.placements))
    return part_of(gradient)


def _detached(result: Any) -> Any:
    """Return a result without its tape, whose memory is not for those who only look at values."""
    leaves, tree = tree_flatten(result)
    return tree_unflatten(tree, [leaf.detach() for leaf in leaves])
