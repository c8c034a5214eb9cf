"""First values for a stage of a model that was made without values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.nn import Module
from shardwise.pipelining.absent import is_absent
from shardwise.tensor import Tensor, empty, no_grad, random

__all__ = ["Initializer", "materialize"]

Initializer: TypeAlias = Callable[[str, Tensor], object]
"""``init(name, tensor)``: writes first values into a tensor."""

_FIRST = -1  # as the number of the forward that random bits belong to: before all of them


def materialize(stage: Module, device: str, init: Initializer | None = None) -> None:
    """Give values to all parameters and buffers of a stage that have none.

    Parameters
    ----------
    stage : Module
    device : str
    init : callable, optional
        Else the ``reset_parameters`` of the modules, each with a random stream of its own path.

    Raises
    ------
    ScheduleError
        A module has no ``reset_parameters``, or does not hold all of its parameters.
    """
    named = (*stage.named_parameters(), *stage.named_buffers())
    fresh = {name: tensor for name, tensor in named if is_absent(tensor)}
    if not fresh:
        return
    for tensor in fresh.values():
        tensor.data = empty(tensor.shape, dtype=tensor.dtype, device=device).data
    with no_grad():
        if init is not None:
            for name, tensor in fresh.items():
                init(name, tensor)
            return
        _reset(stage, fresh)


def _reset(stage: Module, fresh: dict[str, Tensor]) -> None:
    scope = random.Scope(stage.module_paths, _FIRST)
    owners = dict.fromkeys(name.rpartition(".")[0] for name in fresh)
    for path in owners:
        module = stage.get_submodule(path)
        reset = getattr(module, "reset_parameters", None)
        if reset is None:
            names = [name for name in fresh if name.rpartition(".")[0] == path]
            raise ScheduleError(
                f"the model has no values for {', '.join(names)}, and {type(module).__name__} has no "
                "reset_parameters(); give build_stage(init=...)"
            )
        with random.enter(scope):
            scope.stack.append(module)
            try:
                reset()
            finally:
                scope.stack.pop()
