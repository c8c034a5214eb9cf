"""What all optimizers share: groups of parameters, their state, steps, and saving."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ModuleError, ShapeError
from shardwise.optim.param_group import completed_group
from shardwise.optim.saved_state import loaded, packed
from shardwise.tensor import RemovableHandle, Tensor, enable_grad, no_grad
from shardwise.tensor.timeline import timed

__all__ = ["Optimizer"]

Hook = Callable[["Optimizer", tuple[Any, ...], dict[str, Any]], None]


class Optimizer:
    """Changes parameters by their gradients. A subclass defines `update`.

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
        Parameters, with or without their names, or groups ``{"params": [...], "lr": ...}`` with options of
        their own.
    defaults : mapping
        Options for groups that don't give them.

    Attributes
    ----------
    param_groups : list of dict
        Options may be changed at any time.
    state : dict of Tensor to dict
        Per parameter, what `update` keeps: arrays and numbers. Those of a sharded parameter lie as it does.
    moments : tuple of str
        Which of these are arrays in the shape of the parameter.

    Examples
    --------
    >>> import shardwise as sw
    >>> class Descent(Optimizer):
    ...     def update(self, param, grad, state, group):
    ...         param -= group["lr"] * grad
    >>> p = sw.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = Descent([p], {"lr": 0.25})
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.tolist()
    [0.5, 1.0]
    """

    moments: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[dict[str, Any]] = []
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self._pre_hooks: list[Hook] = []
        self._post_hooks: list[Hook] = []
        if isinstance(params, (Tensor, Mapping)):
            raise ModuleError(
                f"{type(self).__name__} takes an iterable of tensors or of groups, not a "
                f"{type(params).__name__}; put it in a list"
            )
        groups = [{"params": params}] if isinstance(params, (set, frozenset)) else list(params)
        if not groups:
            raise ModuleError(
                f"{type(self).__name__} got no parameters; an iterator such as model.parameters() gives them "
                "once, so call it again for each use"
            )
        if not isinstance(groups[0], Mapping):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group of parameters with its own options.

        Raises
        ------
        ModuleError
            A parameter is no leaf tensor, or is here already; or an option is misspelt.
        ArgumentError
            The value of an option is outside its range.
        """
        name = type(self).__name__
        known = {id(p) for other in self.param_groups for p in other["params"]}
        where = f"group {len(self.param_groups)} of {name}"
        group = completed_group(param_group, self.defaults, known, where, name)
        self.check_options(group)
        self.param_groups.append(group)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError if the options of a group make no sense; a subclass says which."""

    def update(self, param: Array, grad: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change one parameter's array in place; `state` is empty at first."""
        raise NotImplementedError(f"{type(self).__name__} does not define update()")

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Change those parameters of a group that have a gradient, one after the other.

        A subclass may define this instead of `update`, to change many in one call.
        """
        for param in params:
            assert param.grad is not None
            self.update(param.data, param.grad.data, self.state[param], group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients anew, and returns the loss.

        Returns
        -------
        what `closure` returned, or None

        Raises
        ------
        ShapeError
            A gradient that was assigned does not have the shape of its parameter.
        """
        given = () if closure is None else (closure,)
        for hook in tuple(self._pre_hooks):
            hook(self, given, {})
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad(), timed(f"{type(self).__name__}.step"):
            for group in self.param_groups:
                params = [param for param in group["params"] if param.grad is not None]
                for param in params:
                    if param.grad.shape != param.shape:
                        raise ShapeError(
                            f"{type(self).__name__}: a parameter has shape {param.shape}, and its grad has "
                            f"{param.grad.shape}; wanted the same"
                        )
                _lay_out([param for param in params if not _lies_alike(param)], type(self).__name__)
                if params:
                    self.update_group(params, group)
                    for param in params:
                        param.version.count += 1
        for hook in tuple(self._post_hooks):
            hook(self, given, {})
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    if param.grad.requires_grad:  # of a backward with create_graph
                        param.grad = param.grad.detach()
                    with no_grad():
                        param.grad.zero_()

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step, with the arguments of `step`."""
        self._pre_hooks.append(hook)
        return RemovableHandle(self._pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step, with the arguments of `step`."""
        self._post_hooks.append(hook)
        return RemovableHandle(self._post_hooks, hook)

    # ---- saving

    def state_shapes(self, shape: Shape) -> Mapping[str, Shape]:
        """Return the shapes of the named arrays in the state of a parameter of this shape."""
        return dict.fromkeys(self.moments, shape)

    def state_dict(self) -> dict[str, Any]:
        """Return state and options, with parameters numbered in the order of the groups.

        The arrays are the optimizer's own; the next step changes them.
        """
        return packed(self.param_groups, self.state)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of an optimizer over equal parameters returned; arrays are copied.

        Raises
        ------
        ModuleError
            The state is of an optimizer with other groups, options or shapes. Nothing is changed then.
        """
        name = type(self).__name__
        groups, states = loaded(state_dict, self.param_groups, [*self.defaults], self.state_shapes, name)
        for group, new in zip(self.param_groups, groups, strict=True):
            group.clear()
            group.update(new)
        self.state = defaultdict(dict, states)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the hooks behind, in copies and pickles."""
        return {**self.__dict__, "_pre_hooks": [], "_post_hooks": []}

    def __repr__(self) -> str:
        lines = [
            f"  group {i}: {len(group['params'])} parameters, "
            + ", ".join(
                f"{key}={value}" for key, value in group.items() if key not in ("params", "param_names")
            )
            for i, group in enumerate(self.param_groups)
        ]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


def _lies_alike(param: Tensor) -> bool:
    """Tell whether a gradient lies as its parameter does, which may be over the ranks of a mesh."""
    assert param.grad is not None
    return getattr(param.grad.data, "layout", None) is getattr(param.data, "layout", None)


def _lay_out(params: Sequence[Tensor], name: str) -> None:
    """Bring gradients to where their parameters are, with one collective for many where that can be."""
    arrays: list[Any] = []
    for param in params:
        assert param.grad is not None
        if not (hasattr(param.grad.data, "layout") and hasattr(param.data, "layout")):
            kinds = ["sharded" if hasattr(each.data, "layout") else "plain" for each in (param, param.grad)]
            raise ModuleError(
                f"{name}: a parameter of shape {param.shape} is {kinds[0]}, and its grad is {kinds[1]}; "
                "assign a gradient of the same kind, as distribute_tensor and full_tensor make them"
            )
        arrays.append(param.grad.data)
    if arrays:
        for param, array in zip(params, arrays[0].laid_like(arrays, params), strict=True):
            assert param.grad is not None
            param.grad.data = array
