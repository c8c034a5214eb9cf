"""An optimizer over parameters that lie on several workers: state and steps are at their owners."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardwise.backend.errors import ArgumentError
from shardwise.optim import Optimizer
from shardwise.rpc.autograd.contexts import Contexts
from shardwise.rpc.call import rpc_async
from shardwise.rpc.current import current_agent
from shardwise.rpc.future import Future
from shardwise.rpc.rref import RRef
from shardwise.tensor.leaf import renewed_memory

__all__ = ["DistributedOptimizer", "DistributedScheduler"]


class DistributedOptimizer:
    """Steps parameters where they lie, by the gradients of a context.

    Parameters
    ----------
    optimizer_class : type of Optimizer
        Made once on each worker that owns parameters, for these.
    params_rref : sequence of RRef, or of dict
        Of parameters; or groups ``{"params": [RRef, ...], "lr": ...}`` with options of their own.
    *args, **kwargs
        Further arguments of `optimizer_class`.

    Raises
    ------
    ArgumentError
        If there are no parameters, or one is no RRef.
    Exception
        What an owner's optimizer has raised, once all owners have answered.

    Notes
    -----
    Steps of several trainers on one owner are made one after the other, in no order across owners: parameters
    may have changed since the gradients were computed. A backward that is under way goes on with the values
    that its graph was made from: each step takes new memory.
    """

    def __init__(
        self,
        optimizer_class: type[Optimizer],
        params_rref: Sequence[RRef[Any]] | Sequence[Mapping[str, Any]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        owned = _by_owner(params_rref)
        made = [
            rpc_async(owner, _make, (optimizer_class, groups, args, kwargs))
            for owner, groups in owned.items()
        ]
        self._parts: dict[str, RRef[_Part]] = dict(zip(owned, _outcomes(made), strict=True))

    def step(self, context_id: int) -> None:
        """Step all parameters that have a gradient in the context; the others stay as they are.

        Raises
        ------
        AutogradError
            If this worker knows no such context.
        Exception
            What an owner's step has raised, once all owners have answered.
        """
        contexts: Contexts = current_agent().parts[Contexts]
        contexts.find(context_id)
        self._all("step", context_id)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the parameters' ``grad`` at their owners, which `step` does not use: contexts are fresh."""
        self._all("zero_grad", set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Give the optimizers' states: by the name of the owner, what its optimizer's `state_dict` gives."""
        return dict(zip(self._parts, self._all("state_dict"), strict=True))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of an optimizer over parameters of the same owners has given.

        Raises
        ------
        ArgumentError
            If it is of other owners.
        """
        if set(state_dict) != set(self._parts):
            raise ArgumentError(
                f"load_state_dict: the state is of owners {', '.join(state_dict)}, and the parameters are at "
                f"{', '.join(self._parts)}; name the workers as they were"
            )
        calls = [part.rpc_async().load_state_dict(state_dict[owner]) for owner, part in self._parts.items()]
        _outcomes(calls)

    @property
    def owners(self) -> list[str]:
        """Names of the workers that own parameters."""
        return list(self._parts)

    def run_on_owners(self, method: str, *args: object) -> list[Any]:
        """Call a method of each owner's part; gives what they return, in the order of `owners`."""
        return self._all(method, *args)

    def _all(self, method: str, *args: object) -> list[Any]:
        return _outcomes([getattr(part.rpc_async(), method)(*args) for part in self._parts.values()])


class DistributedScheduler:
    """Changes the learning rates of a distributed optimizer from step to step, at the owners.

    Parameters
    ----------
    optimizer : DistributedOptimizer
    scheduler_class : callable
        As `optim.lr_scheduler.StepLR`; made once for each owner's optimizer.
    *args, **kwargs
        Further arguments of `scheduler_class`.
    """

    def __init__(
        self, optimizer: DistributedOptimizer, scheduler_class: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        self._optimizer = optimizer
        self._key: int = optimizer.run_on_owners("add_scheduler", scheduler_class, args, kwargs)[0]

    def step(self, *args: Any) -> None:
        """Take the next step of the schedule on all owners, after `DistributedOptimizer.step`."""
        self._optimizer.run_on_owners("step_scheduler", self._key, args)

    def get_last_lr(self) -> dict[str, list[float]]:
        """Give the learning rates of the groups, by owner."""
        rates = self._optimizer.run_on_owners("last_lr", self._key)
        return dict(zip(self._optimizer.owners, rates, strict=True))


class _Part:
    """The part of a distributed optimizer on one owner."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._schedulers: list[Any] = []

    def step(self, context_id: int) -> None:
        agent = current_agent()
        contexts: Contexts = agent.parts[Contexts]
        found = contexts.gradients(context_id)
        params = [param for group in self._optimizer.param_groups for param in group["params"]]
        with agent.parts.setdefault(_Turnstile, _Turnstile()).lock:
            before = [param.grad for param in params]
            try:
                for param in params:
                    param.grad = found.get(param)
                # Other trainers may compute with the parameters at this moment.
                with renewed_memory([param for param in params if param.grad is not None]):
                    self._optimizer.step()
            finally:
                for param, grad in zip(params, before, strict=True):
                    param.grad = grad

    def zero_grad(self, set_to_none: bool) -> None:
        self._optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return self._optimizer.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self._optimizer.load_state_dict(state_dict)

    def add_scheduler(
        self, scheduler_class: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> int:
        self._schedulers.append(scheduler_class(self._optimizer, *args, **kwargs))
        return len(self._schedulers) - 1

    def step_scheduler(self, key: int, args: Sequence[Any]) -> None:
        self._schedulers[key].step(*args)

    def last_lr(self, key: int) -> list[float]:
        rates: list[float] = self._schedulers[key].get_last_lr()
        return rates


class _Turnstile:
    """One step at a time on a worker, of whatever optimizer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def _make(
    optimizer_class: type[Optimizer],
    groups: Sequence[Mapping[str, Any]],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> RRef[_Part]:
    """Make the optimizer of the parameters of this worker."""
    local = [{**group, "params": [rref.local_value() for rref in group["params"]]} for group in groups]
    return RRef(_Part(optimizer_class(local, *args, **kwargs)))


def _by_owner(
    params_rref: Sequence[RRef[Any]] | Sequence[Mapping[str, Any]],
) -> dict[str, list[dict[str, Any]]]:
    """Give the groups of each owner, with its parameters in them."""
    given: list[Any] = list(params_rref)
    groups = given if given and all(isinstance(each, Mapping) for each in given) else [{"params": given}]
    owned: dict[str, list[dict[str, Any]]] = {}
    for i, group in enumerate(groups):
        by_owner: dict[str, list[RRef[Any]]] = {}
        for rref in group["params"]:
            if not isinstance(rref, RRef):
                raise ArgumentError(
                    f"DistributedOptimizer: group {i} has a {type(rref).__name__}; wanted RRefs of "
                    f"parameters, "
                    "as RemoteModule.remote_parameters() gives, or [RRef(p) for p in model.parameters()]"
                )
            by_owner.setdefault(rref.owner_name(), []).append(rref)
        for owner, rrefs in by_owner.items():
            owned.setdefault(owner, []).append({**group, "params": rrefs})
    if not owned:
        raise ArgumentError("DistributedOptimizer got no parameters; give it RRefs of some")
    return owned


def _outcomes(calls: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all, then raise the first error, if there is one."""
    errors = [call.exception() for call in calls]
    for error in errors:
        if error is not None:
            raise error
    return [call.value() for call in calls]
