"""What all optimizers share: groups of parameters, their state, and saving both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ModuleError
from shardwise.tensor import Tensor, enable_grad

__all__ = ["Optimizer"]


class Optimizer:
    """Changes parameters by their gradients. A subclass defines `update`.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups ``{"params": [...], "lr": ...}`` with options of their own.
    defaults : mapping
        Options for groups that don't give them.

    Attributes
    ----------
    param_groups : list of dict
    state : dict of Tensor to dict
        Per parameter, what `update` keeps: arrays and numbers.
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        groups = list(params)
        if not groups:
            raise ModuleError(f"{type(self).__name__} got no parameters")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add a group of parameters with its own options."""
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {id(p) for other in self.param_groups for p in other["params"]}
        for i, p in enumerate(params):
            if not isinstance(p, Tensor):
                raise ModuleError(f"parameter {i} of the group is a {type(p).__name__}, not a Tensor")
            if not p.is_leaf:
                raise ModuleError(
                    f"parameter {i} of the group, of shape {p.shape}, is not a leaf; it cannot be changed"
                )
            if id(p) in known:
                raise ModuleError(
                    f"parameter {i} of the group, of shape {p.shape}, is in the optimizer already"
                )
            known.add(id(p))
        unknown = sorted(set(group) - set(self.defaults) - {"params"})
        if unknown:
            raise ModuleError(
                f"{type(self).__name__} has no option {', '.join(unknown)}; it has {sorted(self.defaults)}"
            )
        self.param_groups.append({**self.defaults, **group, "params": params})

    def update(self, param: Array, grad: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change one parameter's array in place; `state` is empty at first."""
        raise NotImplementedError(f"{type(self).__name__} does not define update()")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients anew, and returns the loss.

        Returns
        -------
        what `closure` returned, or None
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self.update(param.data, param.grad.data, self.state.setdefault(param, {}), group)
                    param.version.count += 1
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad.data[...] = 0

    def state_dict(self) -> dict[str, Any]:
        """Return state and options, with parameters numbered in the order of the groups."""
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[id(p)] = len(numbers)
            options = {key: value for key, value in group.items() if key != "params"}
            groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        return {"state": {numbers[id(p)]: dict(s) for p, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of an optimizer over equal parameters returned."""
        saved = state_dict["param_groups"]
        sizes, given = [len(g["params"]) for g in self.param_groups], [len(g["params"]) for g in saved]
        if sizes != given:
            raise ModuleError(
                f"the state is of an optimizer with groups of {given} parameters, but this one has {sizes}"
            )
        params = [p for group in self.param_groups for p in group["params"]]
        numbers = [n for group in saved for n in group["params"]]
        for group, other in zip(self.param_groups, saved, strict=True):
            group.update({key: value for key, value in other.items() if key != "params"})
        self.state = {
            p: {
                key: np.array(v) if isinstance(v, np.ndarray) else v
                for key, v in state_dict["state"][n].items()
            }
            for p, n in zip(params, numbers, strict=True)
            if n in state_dict["state"]
        }

    def __repr__(self) -> str:
        lines = [
            f"  group {i}: {len(group['params'])} parameters, "
            + ", ".join(f"{key}={value}" for key, value in group.items() if key != "params")
            for i, group in enumerate(self.param_groups)
        ]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])
