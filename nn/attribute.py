"""Attributes that are parts of a module: parameters, buffers and submodules, each in its table."""

from __future__ import annotations

from typing import Any

from shardwise.backend.errors import ModuleError
from shardwise.nn.parameter import Buffer, Parameter
from shardwise.tensor import Tensor

__all__ = ["Attributes"]


class Attributes:
    """Sorts what is assigned: a `Parameter`, a submodule, a value for one of these, or anything else."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _persistent: dict[str, bool]

    def __init__(self) -> None:
        for name in ("_parameters", "_buffers", "_modules", "_persistent"):
            object.__setattr__(self, name, {})

    def share_parts(self, other: Attributes) -> None:
        """Hold the parameters, buffers and submodules of another module, under its names.

        The tables become one: what either of them adds, replaces or removes, the other one has so too.
        """
        for name in ("_parameters", "_buffers", "_modules", "_persistent"):
            object.__setattr__(self, name, other.__dict__[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            raise ModuleError(
                f"{type(self).__name__}.__init__ must call super().__init__() before it sets {name!r}"
            )
        tables: tuple[dict[str, Any], ...] = (self._parameters, self._buffers, self._modules)
        if isinstance(value, Parameter):
            target: dict[str, Any] | None = self._parameters
        elif isinstance(value, Attributes):
            target = self._modules
        elif isinstance(value, Buffer):
            target = self._buffers
            self._persistent[name] = value.persistent
        else:
            target = next((table for table in tables if name in table), None)
            if target is self._parameters and value is not None:
                raise ModuleError(
                    f"cannot assign {type(value).__name__} to parameter {name!r}; wrap it in Parameter()"
                )
            if target is self._modules and value is not None:
                raise ModuleError(
                    f"cannot assign {type(value).__name__} to submodule {name!r}; assign a Module or None"
                )
            if target is self._buffers and not (value is None or isinstance(value, Tensor)):
                raise ModuleError(
                    f"cannot assign {type(value).__name__} to buffer {name!r}; make it a Tensor"
                )
        if target is None:
            object.__setattr__(self, name, value)
            return
        for table in tables:
            if table is not target:
                table.pop(name, None)
        self.__dict__.pop(name, None)
        target[name] = value

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        if "_modules" not in self.__dict__ and not name.startswith("__"):
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}, because its __init__ did not call "
                "super().__init__()"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._persistent.pop(name, None)
                return
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or the place of one."""
        self._check_part(name, param, Parameter)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but not learned; saved if `persistent`."""
        self._check_part(name, tensor, Tensor)
        self._buffers[name] = tensor
        self._persistent[name] = persistent

    def _check_part(self, name: str, part: object, kind: type) -> None:
        """Raise ModuleError unless `part`, a `kind` or None, may be registered under `name`."""
        owner = type(self).__name__
        if "_modules" not in self.__dict__:
            raise ModuleError(f"{owner}.__init__ must call super().__init__() before it registers {name!r}")
        if not name or "." in name:
            raise ModuleError(f"{name!r} cannot name a part of {owner}: it must be non-empty and have no dot")
        if not (part is None or isinstance(part, kind)):
            raise ModuleError(f"{owner}.{name} must be a {kind.__name__} or None, not {type(part).__name__}")
        own = self._parameters if kind is Parameter else self._buffers if kind is Tensor else self._modules
        if name not in own and hasattr(self, name):
            raise ModuleError(
                f"{owner} has an attribute {name!r} already; delete that first, or choose another name"
            )
