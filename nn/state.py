"""Values by name: checked against the tensors that they are for, then taken over, all or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shardwise.backend.array import Array
from shardwise.backend.errors import ModuleError
from shardwise.nn.parameter import Parameter
from shardwise.nn.tree import Tree
from shardwise.tensor import Tensor, as_tensor, no_grad

__all__ = ["IncompatibleKeys", "State"]


class IncompatibleKeys(NamedTuple):
    """Names that `load_state_dict` did not find a partner for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class State(Tree):
    """The state of a module as a dict, and back."""

    def state_dict(
        self,
        prefix: str = "",
        keep_vars: bool = False,
        *,
        destination: dict[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Return parameters and persistent buffers by name, over the module's own memory.

        Parameters
        ----------
        prefix : str
            A path in front of each name; a dot is put behind it where it has none.
        keep_vars : bool
            Give the parameters and buffers themselves, instead of tensors without history.
        destination : dict, optional
            Where to write them; a new dict if not given.

        Returns
        -------
        dict of str to Tensor
            A parameter that is there under two names is listed under both.
        """
        state: dict[str, Tensor] = {} if destination is None else destination
        for path, module in self._walk_tree(prefix.removesuffix("."), once=False):
            dot = f"{path}." if path else ""
            for name, tensor in module._named_state():
                state[dot + name] = tensor if keep_vars else tensor.detach()
        return state

    def _named_state(self) -> list[tuple[str, Tensor]]:
        """Return this module's own parameters and persistent buffers."""
        buffers = [(name, b) for name, b in self._buffers.items() if self._persistent[name]]
        return [(name, t) for name, t in (*self._parameters.items(), *buffers) if t is not None]

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor | Array], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Take over the values of parameters and buffers.

        Parameters
        ----------
        state_dict : mapping of str to Tensor or Array
        strict : bool
            Raise if names are missing or unexpected.
        assign : bool
            Let the module use the memory, dtype and device of what is given, instead of copying values
            into its own, cast to its dtypes.

        Returns
        -------
        missing_keys, unexpected_keys : list of str
            Names that only the module has, and names that only `state_dict` has.

        Raises
        ------
        ModuleError
            Names or shapes that do not fit: all of them, in one message. Nothing is loaded then.

        Notes
        -----
        With `assign`, parameters become other objects; make the optimizer afterwards.
        """
        if not isinstance(state_dict, Mapping):
            raise ModuleError(
                f"load_state_dict takes a mapping of names to tensors, not a {type(state_dict).__name__}"
            )
        own = self.state_dict(keep_vars=True)
        keys = _fit(own, state_dict, strict, type(self).__name__)
        if assign:
            self._assign_state(state_dict)
            return keys
        with no_grad():
            for name, tensor in own.items():
                if name in state_dict:
                    given = as_tensor(state_dict[name], dtype=tensor.dtype, device=tensor.device)
                    if type(given.data) is not type(tensor.data):  # the values of a whole, for parts of it
                        given = tensor.new_tensor(given)
                    tensor.detach().copy_(given)
        return keys

    def _assign_state(self, given: Mapping[str, Tensor | Array]) -> None:
        assigned: dict[int, Tensor] = {}  # what several names share goes on being shared
        for path, module in self._walk_tree(once=False):
            for name, old in module._named_state():
                full = f"{path}.{name}" if path else name
                if full not in given:
                    continue
                new = assigned.get(id(old))
                if new is None:
                    source: Any = given[full]
                    new = source if isinstance(source, Tensor) else as_tensor(source)
                    if not isinstance(old, Parameter):
                        new = new.detach()
                    elif not isinstance(new, Parameter):
                        new = Parameter(new, old.requires_grad)
                    else:
                        new.requires_grad_(old.requires_grad)
                    assigned[id(old)] = assigned[id(new)] = new
                setattr(module, name, new)


def _fit(
    own: Mapping[str, Tensor], given: Mapping[str, Tensor | Array], strict: bool, owner: str
) -> IncompatibleKeys:
    """Raise ModuleError with all that does not fit; otherwise tell which names have no partner."""
    missing = [name for name in own if name not in given]
    unexpected = [name for name in given if name not in own]
    problems = []
    if strict and missing:
        problems.append(f"missing: {', '.join(missing)}")
    if strict and unexpected:
        problems.append(f"unexpected: {', '.join(unexpected)}")
    for name, tensor in own.items():
        if name not in given:
            continue
        shape = getattr(given[name], "shape", None)
        if shape is None:
            problems.append(f"{name} is a {type(given[name]).__name__}, not a tensor or an array")
        elif tuple(shape) != tensor.shape:
            problems.append(f"{name} has shape {tensor.shape}, but {tuple(shape)} was given")
    if problems:
        hint = " (strict=False ignores names that one side has alone)" if strict else ""
        raise ModuleError(f"the state does not fit {owner}: {'; '.join(problems)}{hint}")
    return IncompatibleKeys(missing, unexpected)
