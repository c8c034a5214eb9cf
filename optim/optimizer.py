"""What all optimizers share: groups of parameters, their state, and saving both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shardwise.backend.array import Array
from shardwise.backend.errors import ModuleError
from shardwise.tensor import Tensor, enable_grad, no_grad, tensor

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
        if isinstance(params, (Tensor, Mapping)):
            raise ModuleError(
                f"{type(self).__name__} takes an iterable of tensors or of groups, not a "
                f"{type(params).__name__}; put it in a list"
            )
        groups = list(params)
        if not groups:
            raise ModuleError(f"{type(self).__name__} got no parameters")
        if not isinstance(groups[0], Mapping):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add a group of parameters with its own options.

        Raises
        ------
        ModuleError
            A parameter is no leaf tensor, or is here already; or an option has no meaning.
        ArgumentError
            The value of an option is outside its range.
        """
        if not isinstance(group, Mapping) or "params" not in group:
            raise ModuleError(
                f'{type(self).__name__}: a group is a dict with "params" and options, got {_sketch(group)}'
            )
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        where = f"group {len(self.param_groups)} of {type(self).__name__}"
        known = {id(p) for other in self.param_groups for p in other["params"]}
        for i, p in enumerate(params):
            if not isinstance(p, Tensor):
                raise ModuleError(f"parameter {i} of {where} is a {type(p).__name__}, not a Tensor")
            if not p.is_leaf:
                raise ModuleError(
                    f"parameter {i} of {where}, of shape {p.shape}, was computed by an operation; only "
                    "leaves can be changed"
                )
            if id(p) in known:
                raise ModuleError(
                    f"parameter {i} of {where}, of shape {p.shape}, is in the optimizer already; "
                    "give each once"
                )
            known.add(id(p))
        unknown = sorted(set(group) - set(self.defaults) - {"params"})
        if unknown:
            raise ModuleError(
                f"{type(self).__name__} has no option {', '.join(unknown)}; it has "
                f"{', '.join(sorted(self.defaults))}"
            )
        options = {**self.defaults, **group, "params": params}
        self.check_options(options)
        self.param_groups.append(options)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError if the options of a group make no sense; a subclass says which."""

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
                    with no_grad():
                        param.grad.zero_()

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
        """Take over what `state_dict` of an optimizer over equal parameters returned; arrays are copied.

        Raises
        ------
        ModuleError
            The state is of an optimizer with other groups, options or shapes. Nothing is changed then.
        """
        name = type(self).__name__
        if not {"state", "param_groups"} <= set(state_dict):
            raise ModuleError(
                f'{name}: wanted a state_dict() of an optimizer, with "state" and "param_groups"; got '
                f"{_sketch(state_dict)}"
            )
        saved = state_dict["param_groups"]
        sizes, given = [len(g["params"]) for g in self.param_groups], [len(g["params"]) for g in saved]
        if sizes != given:
            raise ModuleError(
                f"{name}: the state is of an optimizer with groups of {given} parameters, but this one "
                f"has {sizes}"
            )
        options = [{key: value for key, value in group.items() if key != "params"} for group in saved]
        for group in options:
            unknown = sorted(set(group) - set(self.defaults))
            if unknown:
                raise ModuleError(
                    f"{name}: the state is of another optimizer: it has the options {', '.join(unknown)}"
                )
        params = [p for group in self.param_groups for p in group["params"]]
        numbers = [n for group in saved for n in group["params"]]
        states = {
            p: _loaded(state_dict["state"][n], p, f"{name}: the state of parameter {n}")
            for p, n in zip(params, numbers, strict=True)
            if n in state_dict["state"]
        }
        for group, other in zip(self.param_groups, options, strict=True):
            group.update(other)
        self.state = states

    def __repr__(self) -> str:
        lines = [
            f"  group {i}: {len(group['params'])} parameters, "
            + ", ".join(f"{key}={value}" for key, value in group.items() if key != "params")
            for i, group in enumerate(self.param_groups)
        ]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


def _loaded(saved: Mapping[str, Any], param: Tensor, where: str) -> dict[str, Any]:
    """Copy what was saved for one parameter, arrays to its device."""
    state: dict[str, Any] = {}
    for key, value in saved.items():
        if not hasattr(value, "shape"):
            state[key] = value
        elif value.shape not in (param.shape, ()):
            raise ModuleError(f"{where}: {key} has shape {value.shape}, but the parameter has {param.shape}")
        else:
            state[key] = tensor(value, device=param.device).data
    return state


def _sketch(value: Any) -> str:
    return (
        f"a dict of {sorted(map(str, value))}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    )
