"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from shardwise.nn.module import Module

__all__ = ["ModuleList", "Sequential"]


class Sequential(Module):
    """Modules called one after the other.

    Parameters
    ----------
    *modules : Module
        Named ``0``, ``1``, ...
    """

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def forward(self, x: Any) -> Any:
        """Pass `x` through all modules."""
        for module in self.children():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, i: int) -> Module:
        return list(self.children())[i]


class ModuleList(Module):
    """A list of modules; it has no forward.

    Parameters
    ----------
    modules : iterable of Module
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> None:
        """Add one module at the end."""
        self.add_module(str(len(self)), module)

    def extend(self, modules: Iterable[Module]) -> None:
        """Add modules at the end."""
        for module in modules:
            self.append(module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, i: int) -> Module:
        return list(self.children())[i]
