"""The state of an optimizer as plain data, and back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Shape
from shardwise.backend.errors import ModuleError
from shardwise.backend.kind import is_float
from shardwise.optim.param_group import sketch
from shardwise.tensor import Tensor, tensor

__all__ = ["loaded", "packed", "taken_over"]

Groups = list[dict[str, Any]]
States = dict[Tensor, dict[str, Any]]


def packed(groups: Groups, states: Mapping[Tensor, Mapping[str, Any]]) -> dict[str, Any]:
    """Return groups and states with parameters numbered in the order of the groups; arrays are shared."""
    numbers: dict[int, int] = {}
    packed_groups = []
    for group in groups:
        for p in group["params"]:
            numbers[id(p)] = len(numbers)
        options = {key: value for key, value in group.items() if key != "params"}
        packed_groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
    return {
        "state": {numbers[id(p)]: dict(state) for p, state in states.items()},
        "param_groups": packed_groups,
    }


def loaded(
    saved: Mapping[str, Any],
    groups: Groups,
    options: Sequence[str],
    shapes: Callable[[Shape], Mapping[str, Shape]],
    name: str,
) -> tuple[Groups, States]:
    """Return groups and states for the parameters of `groups` out of what was saved; arrays are copied.

    Parameters
    ----------
    saved : mapping
        What `packed` returned, perhaps for other parameters of the same shapes.
    groups : list of dict
    options : sequence of str
        What each saved group must have.
    shapes : callable
        Gives, for the shape of a parameter, the shapes of those arrays of its state that are known by name.
        They are cast to the dtype of the parameter, as in PyTorch.
    name : str
        Of the optimizer, for messages.

    Raises
    ------
    ModuleError
        Groups, options or shapes differ.
    """
    if not isinstance(saved, Mapping) or not {"state", "param_groups"} <= set(saved):
        raise ModuleError(
            f'{name}: wanted a state_dict() of an optimizer, with "state" and "param_groups"; got '
            f"{sketch(saved)}"
        )
    saved_groups = saved["param_groups"]
    sizes, given = [len(g["params"]) for g in groups], [len(g["params"]) for g in saved_groups]
    if sizes != given:
        raise ModuleError(
            f"{name}: the state is of an optimizer with groups of {given} parameters, but this one "
            f"has {sizes}"
        )
    for group in saved_groups:
        missing = [key for key in options if key not in group]
        if missing:
            raise ModuleError(
                f"{name}: the state is of another optimizer: it lacks the options {', '.join(missing)}"
            )
    states: States = {}
    new_groups = []
    for group, other in zip(groups, saved_groups, strict=True):
        for p, n in zip(group["params"], other["params"], strict=True):
            if n in saved["state"]:
                where = f"{name}: the state of parameter {n}"
                states[p] = _loaded_state(saved["state"][n], p, shapes(p.data.shape), where)
        kept = {key: group[key] for key in ("params", "param_names") if key in group}
        new_groups.append({**copy.deepcopy({**other, "params": None}), **kept})
    return new_groups, states


def taken_over(value: Any, dtype: Any, param: Tensor) -> Any:
    """Return a copy of a saved array for a parameter, laid out as the parameter is.

    Parameters
    ----------
    value : array or Tensor
        Of one that is sharded, all ranks that hold a part call this.
    dtype : dtype, optional
        That of `value`, if None.
    param : Tensor
    """
    value = value.data if isinstance(value, Tensor) else value
    own: Any = param.data
    if hasattr(own, "layout") and tuple(value.shape) == own.shape:
        laid = np.zeros_like(own, dtype=value.dtype if dtype is None else dtype)
        laid[...] = own.backend.asarray(value)
        return laid
    return tensor(
        np.asarray(value) if hasattr(value, "layout") else value, dtype=dtype, device=param.device
    ).data


def _loaded_state(
    saved: Mapping[str, Any], param: Tensor, shapes: Mapping[str, Shape], where: str
) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for key, value in saved.items():
        if key == "step":
            state[key] = int(value)  # a number, or an array of one
        elif not hasattr(value, "shape"):
            state[key] = copy.deepcopy(value)
        else:
            shape = shapes.get(key)
            if shape is not None and tuple(value.shape) != shape:
                raise ModuleError(
                    f"{where}: {key} has shape {tuple(value.shape)}, and a parameter of shape "
                    f"{param.data.shape} needs {shape}"
                )
            cast = param.dtype if shape is not None and is_float(param.dtype) else None
            if isinstance(value, Tensor) and not hasattr(param.data, "layout"):
                state[key] = tensor(value, dtype=cast, device=param.device)
            else:
                state[key] = taken_over(value, cast, param)
    return state
