"""A module's parameters and buffers, and those of all modules below it, by dotted name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from shardwise.backend.errors import ModuleError
from shardwise.nn.attribute import Attributes
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor

__all__ = ["Tree"]


class Tree(Attributes):
    """Walks over the parts of a module and of the modules in it."""

    def _walk_tree(self, prefix: str = "", once: bool = True) -> Iterator[tuple[str, Self]]:
        """Yield every module of the tree with its dotted path, this one first.

        `once` leaves out a module that was yielded under another path.
        """
        seen: set[int] = set()
        stack: list[tuple[str, Any]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if once and id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            children = [(f"{path}.{name}" if path else name, m) for name, m in module._named_parts()]
            stack.extend(reversed(children))

    def _named_parts(self) -> list[tuple[str, Self]]:
        """Return the direct submodules with their names; one with two names is there twice."""
        return [(name, module) for name, module in self._modules.items() if module is not None]

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self._walk_tree(prefix, once=remove_duplicate):
            for name, value in module.__dict__[table].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value
            if not recurse:
                return

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield each parameter with its dotted name; once, unless `remove_duplicate` is False."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield each parameter once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield each buffer with its dotted name; once, unless `remove_duplicate` is False."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield each buffer once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def _submodule_at(self, target: str) -> Self:
        """Return the module at a dotted path; ``""`` is this one."""
        module: Any = self
        for name in target.split(".") if target else ():
            child = module._modules.get(name)
            if child is None:
                raise ModuleError(f"{type(self).__name__} has no submodule {target!r} (stopped at {name!r})")
            module = child
        found: Self = module
        return found

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        parameter = self._submodule_at(path)._parameters.get(name)
        if parameter is None:
            raise ModuleError(f"{type(self).__name__} has no parameter {target!r}")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        buffer = self._submodule_at(path)._buffers.get(name)
        if buffer is None:
            raise ModuleError(f"{type(self).__name__} has no buffer {target!r}")
        return buffer
