"""`StageModule`: one stage of a model that was split, as a module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

from shardwise.backend.array import Array
from shardwise.backend.errors import ScheduleError
from shardwise.nn import Module, Parameter
from shardwise.nn.state import IncompatibleKeys
from shardwise.pipelining.absent import Absent, is_absent
from shardwise.pipelining.arguments import Arguments, Crossing, Known
from shardwise.pipelining.cut import Part
from shardwise.pipelining.marker import watched_by
from shardwise.pipelining.replay import EndOfStage, Replay
from shardwise.pipelining.skip import Box, carrying, fetch, stash
from shardwise.pipelining.trace import Alias, Fixed, Leaf, Trace, TracedValue
from shardwise.tensor import Tensor, next_draw, tree_leaves, tree_unflatten
from shardwise.tensor.mode import current_mode, override

__all__ = ["Planner", "StageModule"]


class Planner(Protocol):
    """Knows how a model is cut for given arguments."""

    device: str

    def parts(self, arguments: Arguments, training: tuple[bool, ...]) -> Sequence[Part]:
        """Return all stages, for some arguments, and with each module, in their order, in training or not."""


class StageModule(Module):
    """One stage of a split model: takes what the stage before gave, and gives what the next one needs.

    Its parameters and buffers are those of the model that the stage reads, the same objects under the same
    names. Take it from `Pipe.get_stage_module`.

    Parameters
    ----------
    planner : Planner
    index : int
    root : Module
        The model, with absent tensors where others hold the values; its modules are watched.
    count : int
        Number of stages.
    summary : str
        Which modules of the model run in it.
    """

    _planner: Planner
    _index: int
    _root: Module
    _count: int
    _summary: str
    _tree: tuple[Module, ...]

    def __init__(self, planner: Planner, index: int, root: Module, count: int, summary: str) -> None:
        super().__init__()
        self.share_parts(root)
        hidden = {
            "_planner": planner, "_index": index, "_root": root, "_count": count, "_summary": summary,
            "_tree": tuple(root.modules()), "training": root.training,
        }  # fmt: skip
        for name, value in hidden.items():  # the model may have parts of any name
            object.__setattr__(self, name, value)

    # ---- running

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the stage.

        Parameters
        ----------
        *args
            Those of the model, for the first stage; what the stage before gave, for the others.
        **kwargs
            Keyword arguments of the model; on later stages those that are read there.

        Returns
        -------
        Crossing, or what the model returns
        """
        arguments, received, leaves = self._arguments(args, kwargs)
        part = self._planner.parts(arguments, tuple([each.training for each in self._tree]))[self._index]
        if any(is_absent(leaf) for leaf in tree_leaves((args, kwargs))):
            return self._without_data(part, arguments)
        incoming = [*received, *(fetch(_name_of(value)) for value in part.fetched)]
        if len(received) != len(part.received):
            raise ScheduleError(
                f"stage {self._index} got {len(received)} tensors from the stage before, and wants "
                f"{len(part.received)}; train() or eval() was not called on all stages alike"
            )
        self._check_keywords(part, arguments, leaves)
        replay = Replay(part, incoming, current_mode().doors)
        inputs = [value for value in part.trace.values if value.source in ("argument", "keyword")]
        known = [leaf for leaf, told in zip(leaves, arguments.leaves, strict=True) if isinstance(told, Known)]
        for value, leaf in zip(inputs, known, strict=True):
            replay.hold(value.number, leaf)
        positional, named = arguments.put_together(leaves)
        try:
            with watched_by(replay), carrying(Box({})), override(doors=(*replay.doors, replay.op)):
                result = self._root(*positional, **named)
        except EndOfStage:
            return self._given(part, replay.results(), arguments)
        finally:
            replay.done = True  # recompute() may call parts of it again, in the backward
        if self._index < self._count - 1:
            raise ScheduleError(
                f"stage {self._index}: the model ended before the cut {part.end}; with values it does other "
                "things than without"
            )
        return replay.with_values(result)

    def _given(
        self, part: Part, results: Sequence[Tensor], arguments: Arguments, name: str = "tensors"
    ) -> Crossing:
        """Put aside what later stages fetch, and return what the next one gets."""
        count = len(part.given)
        for value, tensor in zip(part.stashed, results[count:], strict=True):
            stash(_name_of(value), tensor)
        return Crossing.of(results[:count], arguments, name)

    def _arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Arguments, Sequence[Tensor], list[Any]]:
        """Return what the model was called with, what was received, and the model's arguments as leaves."""
        if self._index == 0:
            arguments = Arguments.of(args, kwargs, self._planner.device)
            return arguments, (), tree_leaves((args, dict(sorted(kwargs.items()))))
        if len(args) != 1 or not isinstance(args[0], Crossing):
            raise ScheduleError(
                f"stage {self._index} takes what stage {self._index - 1} gives, and got "
                f"{', '.join(type(each).__name__ for each in args) or 'nothing'}; arguments of the model go "
                "to the first stage"
            )
        arguments = args[0].arguments
        leaves = arguments.absent()
        arguments.with_given(leaves, kwargs)
        return arguments, args[0].tensors, leaves

    def _check_keywords(self, part: Part, arguments: Arguments, leaves: Sequence[Any]) -> None:
        if not part.keywords:
            return
        for leaf, name in zip(leaves, arguments.names(), strict=True):
            if name in part.keywords and is_absent(leaf):
                raise ScheduleError(
                    f"stage {self._index} reads the keyword argument {name!r}, at {part.keywords[name]}; "
                    "give it to step() on this rank, too, or pass it to the model by position, and it is sent"
                )

    def _without_data(self, part: Part, arguments: Arguments) -> Any:
        """Return what the stage gives, for arguments without data, as the trace says."""
        if part.draws:
            next_draw()  # so that whoever asks knows
        for value in part.fetched:
            fetch(_name_of(value))
        trace = part.trace
        if self._index < self._count - 1:
            results = [_shaped(value, value.requires_grad(part.stop)) for value in part.outgoing]
            return self._given(part, results, arguments, repr(arguments.leaves))
        assert trace.tree is not None
        return tree_unflatten(trace.tree, [_result(trace, leaf) for leaf in trace.leaves])

    def train(self, mode: bool = True) -> Self:
        """Put the stage into training mode (or out of it)."""
        self._root.train(mode)
        object.__setattr__(self, "training", bool(mode))
        return self

    # ---- what it holds

    def module_paths(self) -> dict[int, str]:
        """Return paths as in the whole model, so that random streams are those of the whole model."""
        return {**self._root.module_paths(), id(self): ""}

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters that the stage reads, under their names in the model."""
        named = super().named_parameters(prefix, recurse, remove_duplicate)
        return ((name, parameter) for name, parameter in named if not isinstance(parameter, Absent))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers that the stage reads, under their names in the model."""
        named = super().named_buffers(prefix, recurse, remove_duplicate)
        return ((name, buffer) for name, buffer in named if not isinstance(buffer, Absent))

    def state_dict(
        self, prefix: str = "", keep_vars: bool = False, *, destination: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Return what the stage holds, under the names in the model."""
        held = super().state_dict(prefix, keep_vars, destination=destination)
        for name in [name for name, tensor in held.items() if isinstance(tensor, Absent)]:
            del held[name]
        return held

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor | Array], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Take over values from the state of the whole model, of which others hold the rest."""
        own = self.state_dict()
        given = {name: value for name, value in state_dict.items() if name in own}
        return super().load_state_dict(given, strict, assign)

    def extra_repr(self) -> str:
        """Say which stage it is."""
        return f"stage {self._index} of {self._count}: {self._summary}"

    def __repr__(self) -> str:
        held = sum(parameter.data.size for parameter in self.parameters())
        return f"{type(self).__name__}({self.extra_repr()}; {held:,} parameters)"


def _name_of(value: TracedValue) -> str:
    return f"value {value.number}"


def _result(trace: Trace, leaf: Leaf) -> Any:
    if isinstance(leaf, Fixed):
        return leaf.value
    value = trace.values[leaf.number if isinstance(leaf, Alias) else leaf]
    return _shaped(value, value.requires_grad(trace.end) and not isinstance(leaf, Alias))


def _shaped(value: TracedValue, requires_grad: bool) -> Tensor:
    tensor = value.absent()
    tensor.requires_grad = requires_grad
    return tensor
