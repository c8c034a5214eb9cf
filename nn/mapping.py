"""Modules and parameters held by name or by place, without a forward."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from shardwise.backend.errors import IndexRangeError, ModuleError
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor

__all__ = ["ModuleDict", "ParameterDict", "ParameterList"]


class ModuleDict(Module):
    """Modules by name, in the order in which they were put in.

    Parameters
    ----------
    modules : mapping of str to Module, or iterable of pairs, optional

    Examples
    --------
    >>> from shardwise import nn
    >>> heads = nn.ModuleDict({"mean": nn.Linear(4, 1), "spread": nn.Linear(4, 1)})
    >>> list(heads.state_dict())
    ['mean.weight', 'mean.bias', 'spread.weight', 'spread.bias']
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        self.update({} if modules is None else modules)

    def __getitem__(self, key: str) -> Module:
        module = self._modules.get(key)
        if module is None:
            raise KeyError(key)
        return module

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take a module out, and return it."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """Return the modules."""
        return dict(self._named_parts()).values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return pairs of name and module."""
        return dict(self._named_parts()).items()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Put modules in, in place of those that have their names."""
        for name, module in dict(modules).items():
            self[name] = module


def _learned(owner: str, value: object) -> Parameter:
    if isinstance(value, Parameter):
        return value
    if isinstance(value, Tensor):
        return Parameter(value)
    raise ModuleError(f"{owner} holds parameters, not {type(value).__name__}; wrap arrays in Parameter()")


class ParameterList(Module):
    """Parameters in a row, named ``0``, ``1``, ...; tensors become parameters.

    Parameters
    ----------
    values : iterable of Tensor, optional
    """

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        self.extend(() if values is None else values)

    def _name(self, i: int) -> str:
        if not -len(self) <= i < len(self):
            raise IndexRangeError(f"index {i} is out of range for ParameterList of {len(self)} parameters")
        return str(i % len(self))

    @overload
    def __getitem__(self, i: int) -> Parameter: ...
    @overload
    def __getitem__(self, i: slice) -> Self: ...
    def __getitem__(self, i: int | slice) -> Parameter | Self:
        if isinstance(i, slice):
            return type(self)(list(self)[i])
        return self.get_parameter(self._name(i))

    def __setitem__(self, i: int, value: Tensor) -> None:
        self._parameters[self._name(i)] = _learned("ParameterList", value)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return (p for p in self._parameters.values() if p is not None)

    def __iadd__(self, values: Iterable[Tensor]) -> Self:
        return self.extend(values)

    def append(self, value: Tensor) -> Self:
        """Add one parameter at the end, and return this list."""
        self.register_parameter(str(len(self)), _learned("ParameterList", value))
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        """Add parameters at the end, and return this list."""
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Show each parameter's shape and dtype."""
        return _shown(self._parameters)


class ParameterDict(Module):
    """Parameters by name, in the order in which they were put in; tensors become parameters.

    Parameters
    ----------
    parameters : mapping of str to Tensor, or iterable of pairs, optional
    """

    def __init__(
        self, parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] | ParameterDict | None = None
    ) -> None:
        super().__init__()
        self.update({} if parameters is None else parameters)

    def __getitem__(self, key: str) -> Parameter:
        parameter = self._parameters.get(key)
        if parameter is None:
            raise KeyError(key)
        return parameter

    def __setitem__(self, key: str, value: Tensor) -> None:
        self.register_parameter(key, _learned("ParameterDict", value))

    def __delitem__(self, key: str) -> None:
        del self._parameters[key]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def __contains__(self, key: object) -> bool:
        return key in self._parameters

    def __or__(self, other: ParameterDict) -> Self:
        copy = self.copy()
        copy.update(other)
        return copy

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def copy(self) -> Self:
        """Return another dict of the same parameters."""
        return type(self)(self)

    def clear(self) -> None:
        """Take all parameters out."""
        self._parameters.clear()

    def pop(self, key: str) -> Parameter:
        """Take a parameter out, and return it."""
        parameter = self[key]
        del self[key]
        return parameter

    def popitem(self) -> tuple[str, Parameter]:
        """Take out the parameter that was put in last, and return its name and it."""
        key = list(self)[-1]
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a parameter, or `default` if there is none of that name."""
        found = self._parameters.get(key)
        return default if found is None else found

    def setdefault(self, key: str, default: Tensor) -> Parameter:
        """Return a parameter, after putting in `default` if there was none of that name."""
        if key not in self:
            self[key] = default
        return self[key]

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._parameters.keys()

    def values(self) -> Iterable[Parameter]:
        """Return the parameters."""
        return [self[key] for key in self]

    def items(self) -> Iterable[tuple[str, Parameter]]:
        """Return pairs of name and parameter."""
        return [(key, self[key]) for key in self]

    def update(self, parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] | ParameterDict) -> None:
        """Put parameters in, in place of those that have their names."""
        pairs = parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters
        for name, value in pairs:
            self[name] = value

    def extra_repr(self) -> str:
        """Show each parameter's shape and dtype."""
        return _shown(self._parameters)


def _shown(parameters: Mapping[str, Parameter | None]) -> str:
    return "\n".join(f"({name}): {p.shape} {p.dtype}" for name, p in parameters.items() if p is not None)
