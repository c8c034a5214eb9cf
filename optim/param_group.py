"""A group of parameters as a user gives it: checked, and completed with the defaults."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from shardwise.backend.errors import ModuleError
from shardwise.tensor import Tensor

__all__ = ["completed_group", "sketch"]

_ALIKE = 0.85  # weight_dacay and weight_decay are, eps2 and eps are not


def completed_group(
    group: Mapping[str, Any], defaults: Mapping[str, Any], known: Collection[int], where: str, name: str
) -> dict[str, Any]:
    """Return a group with a list of parameters and a value for each option.

    Parameters
    ----------
    group : mapping
        ``"params"``: a tensor, or an iterable of tensors or of pairs of name and tensor; and options. Keys
        that are no options are kept: users put notes of their own there.
    defaults : mapping
        What options there are.
    known : collection of int
        The ids of the parameters that the optimizer has already.
    where, name : str
        Of the group and the optimizer, for messages.

    Raises
    ------
    ModuleError
        It is no group, a parameter is no leaf tensor or is known already, or an option is misspelt.
    """
    if not isinstance(group, Mapping) or "params" not in group:
        raise ModuleError(f'{name}: a group is a dict with "params" and options, got {sketch(group)}')
    params, names = _parameters(group["params"], where)
    seen = set(known)
    for i, p in enumerate(params):
        if not isinstance(p, Tensor):
            raise ModuleError(f"parameter {i} of {where} is a {type(p).__name__}, not a Tensor")
        if not p.is_leaf:
            raise ModuleError(
                f"parameter {i} of {where}, of shape {p.shape}, was computed by an operation; only "
                "leaves can be changed"
            )
        if id(p) in seen:
            raise ModuleError(
                f"parameter {i} of {where}, of shape {p.shape}, is in the optimizer already; give each once"
            )
        seen.add(id(p))
    for key in group.keys() - defaults.keys() - {"params"}:
        alike = difflib.get_close_matches(str(key), defaults, 1, _ALIKE)
        if alike:
            raise ModuleError(f"{name} has no option {key}; do you mean {alike[0]}?")
    completed = {**defaults, **group, "params": params}
    if names:
        completed["param_names"] = names
    return completed


def _parameters(given: Any, where: str) -> tuple[list[Any], list[str]]:
    if isinstance(given, (set, frozenset)):
        raise ModuleError(
            f"the parameters of {where} are a set, whose order changes from run to run; give a list"
        )
    items: list[Any] = [given] if isinstance(given, Tensor) else list(given)
    named = [isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in items]
    if items and all(named):
        return [p for _, p in items], [label for label, _ in items]
    if any(named):
        raise ModuleError(f"some parameters of {where} come with a name and some without; give all or none")
    return items, []


def sketch(value: Any) -> str:
    """Describe in a few words what was given, for messages."""
    if isinstance(value, Mapping):
        return f"a dict of {sorted(map(str, value))}"
    return f"a {type(value).__name__}"
