"""`Blueprint`: a model without values, and how it is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardwise.nn import Module
from shardwise.pipelining.absent import copy_keeping
from shardwise.pipelining.arguments import Arguments
from shardwise.pipelining.cut import Part, cut
from shardwise.pipelining.marker import Anchor, watch
from shardwise.pipelining.recorder import record
from shardwise.pipelining.trace import Trace
from shardwise.tensor import Tensor
from shardwise.tensor.mode import current_mode

__all__ = ["Blueprint"]


class Blueprint:
    """Traces a model, again for every kind of arguments and mode, and cuts the traces alike.

    Parameters
    ----------
    model : Module
    device : str
        Where values will be that are not there yet.
    """

    def __init__(self, model: Module, device: str) -> None:
        self.device = device
        self.anchors: tuple[Anchor, ...] = ()
        self._module = copy_keeping(model, (), device)
        watch(self._module)
        self._tree = tuple(self._module.modules())
        self._parameters = _absent_of(self._module, dict(model.named_parameters()))
        self._buffers = _absent_of(self._module, dict(model.named_buffers()))
        self._traces: dict[Any, Trace] = {}
        self._parts: dict[Any, list[Part]] = {}

    def trace(self, arguments: Arguments, training: tuple[bool, ...]) -> Trace:
        """Return what a run of the model does."""
        key = (arguments, training, current_mode().autocast)
        if key not in self._traces:
            for module, flag in zip(self._tree, training, strict=True):
                module.training = flag
            self._traces[key] = record(self._module, self._parameters, self._buffers, arguments)
        return self._traces[key]

    def parts(self, arguments: Arguments, training: tuple[bool, ...]) -> Sequence[Part]:
        """Return all stages of a run."""
        key = (arguments, training, current_mode().autocast)
        if key not in self._parts:
            self._parts[key] = cut(self.trace(arguments, training), self.anchors)
        return self._parts[key]


def _absent_of(module: Module, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a copy of a model has in place of the model's tensors."""
    found = {}
    for name in named:
        path, _, last = name.rpartition(".")
        found[name] = getattr(module.get_submodule(path), last)
    return found
