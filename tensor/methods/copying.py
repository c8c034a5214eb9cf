"""Copies of a tensor, and tensors that are sent elsewhere."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.tensor.methods.carrier import Carrier

__all__ = ["Copying"]

# What a tensor is made of; whatever else a user has put on it goes along with a copy.
_OWN = frozenset(
    ("data", "requires_grad", "node", "index", "grad", "sink", "hooks", "post_hooks", "_version", "_view")
)


class Copying(Carrier):
    """The ``copy`` module and pickles.

    A copy keeps its class, `requires_grad` and the attributes that a user has set; hooks stay behind.
    """

    def __copy__(self) -> Self:
        """Return another tensor over the same memory, at the same place of the tape, without ``grad``."""
        this: Any = self
        out: Any = _rebuilt(type(self), self.data, self.requires_grad, _extras(self))
        out.node, out.index = self.node, self.index
        out._version = this.version
        return out  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a leaf over memory of its own, with a copy of ``grad``."""
        if self.node is not None:
            raise AutogradError("only leaves can be deep-copied; detach() first")
        this: Any = self
        out: Any = _rebuilt(type(self), _copied(self.data, memo), self.requires_grad, {})
        memo[id(self)] = out
        out.grad = copy.deepcopy(this.grad, memo)
        for name, value in _extras(self).items():
            setattr(out, name, copy.deepcopy(value, memo))
        return out  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        """Pickle the values: those of a view alone, not the memory that it looks at; without ``grad``."""
        if self.node is not None:
            raise AutogradError("only leaves can be pickled; detach() first")
        return _rebuilt, (type(self), self.data, self.requires_grad, _extras(self))


def _rebuilt(kind: Any, data: Array, requires_grad: bool, extras: dict[str, Any]) -> Any:
    """Make a tensor of any class without calling the class, whose arguments may be others."""
    out = kind.__new__(kind)
    out.data = data
    out.requires_grad = requires_grad
    for name, value in extras.items():
        setattr(out, name, value)
    return out


def _extras(tensor: Carrier) -> dict[str, Any]:
    return {name: value for name, value in vars(tensor).items() if name not in _OWN}


def _copied(array: Array, memo: dict[int, Any]) -> Array:
    """Copy an array once for all tensors that hold it, as ``x`` and ``x.detach()`` do."""
    if id(array) not in memo:
        memo[id(array)] = array.copy() if not isinstance(array, np.ndarray) else np.array(array, order="K")
    result: Array = memo[id(array)]
    return result
