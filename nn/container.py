"""Modules that hold modules in a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Self, overload

from shardwise.backend.errors import ArgumentError, IndexRangeError, ModuleError
from shardwise.nn.module import Module

__all__ = ["ModuleList", "Sequential"]


class _Row(Module):
    """Modules in a row, named ``0``, ``1``, ... unless names were given."""

    def _of(self, modules: Mapping[str, Module]) -> Self:
        """Return another container of this kind over some of the modules, under their names."""
        other = type(self)()
        for name, module in modules.items():
            other.add_module(name, module)
        return other

    def _names(self) -> list[str]:
        return [name for name, _ in self._named_parts()]

    def _name(self, i: int) -> str:
        names = self._names()
        if not -len(names) <= i < len(names):
            raise IndexRangeError(
                f"index {i} is out of range for {type(self).__name__} of {len(names)} modules"
            )
        return names[i]

    def _rename(self, modules: Iterable[Module]) -> None:
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    @overload
    def __getitem__(self, i: int) -> Module: ...
    @overload
    def __getitem__(self, i: slice) -> Self: ...
    def __getitem__(self, i: int | slice) -> Module | Self:
        if isinstance(i, slice):
            named = self._named_parts()[i]
            row = self._of(dict(named))
            if not isinstance(row, Sequential):  # as PyTorch: a slice of a list counts from 0
                row._rename(module for _, module in named)
            return row
        return self.get_submodule(self._name(i))

    def __setitem__(self, i: int, module: Module) -> None:
        self._modules[self._name(i)] = self._checked(module)

    def __delitem__(self, i: int | slice) -> None:
        names = self._names()
        gone = set(names[i] if isinstance(i, slice) else [self._name(i)])
        self._rename([module for name, module in self._named_parts() if name not in gone])

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return (module for _, module in self._named_parts())

    def __contains__(self, module: object) -> bool:
        return any(module is own for own in self)

    def __add__(self, other: Iterable[Module]) -> Self:
        row = self._of({})
        return row.extend(self).extend(other)

    def __iadd__(self, other: Iterable[Module]) -> Self:
        return self.extend(other)

    def append(self, module: Module) -> Self:
        """Add one module at the end, and return this container."""
        self.add_module(str(len(self)), self._checked(module))
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end, and return this container."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put one module before place `index`, as `list.insert` does, and return this container."""
        modules = list(self)
        modules.insert(index, self._checked(module))
        self._rename(modules)
        return self

    def pop(self, key: int | slice = -1) -> Module | Self:
        """Take a module out, and return it."""
        taken = self[key]
        del self[key]
        return taken

    def _checked(self, module: Module) -> Module:
        if not isinstance(module, Module):
            raise ModuleError(
                f"{type(self).__name__} holds modules, not {type(module).__name__}; give an instance of "
                "nn.Module"
            )
        return module


class Sequential(_Row):
    """Modules called one after the other.

    Parameters
    ----------
    *modules : Module, or one mapping of str to Module
        Named ``0``, ``1``, ... or as the mapping says.

    Examples
    --------
    >>> from shardwise import nn
    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU()) + nn.Sequential(nn.Linear(4, 1))
    >>> net[-1]
    Linear(in_features=4, out_features=1, bias=True)
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            if isinstance(module, Mapping) and len(modules) == 1:
                for name, named in module.items():
                    self.add_module(name, self._checked(named))
            elif isinstance(module, Module):
                self.append(module)
            else:
                raise ModuleError(
                    f"Sequential takes modules, or one mapping of names to modules; argument {i} is a "
                    f"{type(module).__name__}"
                )

    def forward(self, input: Any) -> Any:
        """Pass `input` through all modules."""
        for module in self:
            input = module(input)
        return input

    def __mul__(self, times: int) -> Self:
        """Return the modules in a row that many times; they are the same objects, not copies."""
        if not isinstance(times, int) or times < 1:
            raise ArgumentError(
                f"Sequential can be repeated a whole number of times from 1 on, not {times!r}"
            )
        return self._of({}).extend([module for _ in range(times) for module in self])

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        return self.extend(list((self * times)[len(self) :]))


class ModuleList(_Row):
    """A list of modules; it has no forward.

    Parameters
    ----------
    modules : iterable of Module
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def __repr__(self) -> str:
        """Show equal neighbours once, with their number, as PyTorch does."""
        lines = []
        at = 0
        for text, same in groupby(repr(module) for module in self):
            n = len(list(same))
            head = f"({at}): " if n == 1 else f"({at}-{at + n - 1}): {n} x "
            lines.append((head + text).replace("\n", "\n  "))
            at += n
        return (
            "\n  ".join([f"{type(self).__name__}(", *lines]) + "\n)" if lines else f"{type(self).__name__}()"
        )
