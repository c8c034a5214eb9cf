"""Two libraries behind one set of names, so that an operation is written once and done by both.

Ours has PyTorch's names, so the same line runs on either. What differs is how a tensor is made of an array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy.typing as npt

import shardwise as sw
from contest.our_kernels import OURS
from shardwise import nn, optim
from shardwise.nn import functional
from shardwise.tensor import grad

__all__ = ["Library", "ours"]


@dataclass(frozen=True, slots=True)
class Library:
    """The names that operations use.

    Attributes
    ----------
    root, F, nn, optim : module
        ``shardwise`` or ``torch``, and the parts of it.
    grad : callable
        ``grad(outputs, inputs, gradients, retain_graph=True)``.
    tensor : callable
        Makes a tensor over the memory of a NumPy array.
    kernels : mapping
        By operation and direction, what makes a kernel alone something to call, of the operation's inputs.
    """

    root: ModuleType
    F: ModuleType
    nn: ModuleType
    optim: ModuleType
    grad: Callable[..., Any]
    tensor: Callable[[npt.NDArray[Any]], Any]
    kernels: Mapping[tuple[str, str], Callable[..., Callable[[], object]]]

    def leaf(self, array: npt.NDArray[Any]) -> Any:
        """Make a tensor of a copy of `array`, that requires grad if its elements are floats."""
        made = self.tensor(array.copy())
        return made.requires_grad_() if array.dtype.kind == "f" else made


def ours() -> Library:
    """Return Shardwise."""
    return Library(sw, functional, nn, optim, grad, sw.from_numpy, OURS)
