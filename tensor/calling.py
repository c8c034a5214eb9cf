"""``sw.tensor([1.0, 2.0])``: the package is called by the name of the function it is named after.

``shardwise.tensor`` is this folder, and in PyTorch's naming also the function that makes a
tensor. Importing the folder binds its name in the package above, so the module itself has to be
callable.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from shardwise.tensor.creation import tensor
from shardwise.tensor.tensor import Tensor

__all__: list[str] = []


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return tensor(*args, **kwargs)


sys.modules["shardwise.tensor"].__class__ = _CallableModule
