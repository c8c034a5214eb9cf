"""`RemoteModule`: a module that lives on another worker, and is called from here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from shardwise.backend.errors import ArgumentError, ModuleError
from shardwise.nn import Module
from shardwise.rpc.call import rpc_sync
from shardwise.rpc.future import Future
from shardwise.rpc.rref import RRef
from shardwise.tensor import Tensor, tree_map

__all__ = ["RemoteModule"]

_ADDRESS = re.compile(r"(?:rank:(?P<rank>\d+)|(?P<name>[A-Za-z0-9_:\-]+?))(?:/(?P<device>[a-z]+(?::\d+)?))?")


class RemoteModule:
    """A module on another worker.

    Parameters
    ----------
    remote_device : str
        Where it is: ``"NAME/DEVICE"`` or ``"rank:NUMBER/DEVICE"``, as ``"worker1/cuda:0"``; without a device
        on the CPU.
    module_cls : type of Module
        Made there, as ``module_cls(*args, **kwargs)``.
    args, kwargs : optional

    Raises
    ------
    ArgumentError
        If `remote_device` is not of that form.
    ModuleError
        If what `module_cls` gives is no Module.
    Exception
        What making it has raised.

    Attributes
    ----------
    on : str
        Name of the worker.
    device : str

    Notes
    -----
    A handle: sent in a call it goes by reference. In a context of `rpc.autograd`, gradients flow through it.
    """

    def __init__(
        self,
        remote_device: str,
        module_cls: Callable[..., Module],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        found = _ADDRESS.fullmatch(remote_device) if isinstance(remote_device, str) else None
        if found is None:
            raise ArgumentError(
                f"RemoteModule: remote_device={remote_device!r}; wanted 'NAME/DEVICE' or "
                f"'rank:NUMBER/DEVICE', "
                "as 'worker1/cpu'"
            )
        to = found["name"] if found["rank"] is None else int(found["rank"])
        self.device: str = found["device"] or "cpu"
        arguments = (module_cls, tuple(args or ()), dict(kwargs or {}), self.device)
        self._hosted, self._module = rpc_sync(to, _host, arguments)
        self.on: str = self._module.owner_name()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module there, and give its result."""
        return self.forward_async(*args, **kwargs).wait()

    __call__ = forward

    def forward_async(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the module there; gives the future of its result. Tensors are moved to its device there."""
        result: Future[Any] = self._hosted.rpc_async().call(args, kwargs)
        return result

    def remote_parameters(self, recurse: bool = True) -> list[RRef[Any]]:
        """Give references to its parameters, for `DistributedOptimizer`."""
        parameters: list[RRef[Any]] = self._hosted.rpc_sync().parameters(recurse)
        return parameters

    def get_module_rref(self) -> RRef[Module]:
        """Give a reference to the module itself."""
        return self._module

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and hasattr(Module, name):
            return _Unsupported(name)
        raise AttributeError(
            f"RemoteModule has no attribute {name!r}; get_module_rref() refers to the module itself"
        )

    def __repr__(self) -> str:
        return f"RemoteModule(on={self.on}, device={self.device})"


class _Unsupported:
    """A method of modules that the handle does not have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise ModuleError(
            f"Method ``{self._name}`` not supported for RemoteModule: the module is elsewhere. Call it "
            f"there, as "
            f"get_module_rref().rpc_sync().{self._name}(...)"
        )


class _Hosted:
    """The module, where it lives."""

    def __init__(self, module: Module, device: str) -> None:
        self._module = module
        self._device = device

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self._device != "cpu":
            args, kwargs = tree_map(self._moved, args), tree_map(self._moved, kwargs)
        return self._module(*args, **kwargs)

    def _moved(self, leaf: Any) -> Any:
        return leaf.to(self._device) if isinstance(leaf, Tensor) else leaf

    def parameters(self, recurse: bool) -> list[RRef[Any]]:
        return [RRef(each) for each in self._module.parameters(recurse)]


def _host(
    module_cls: Callable[..., Module], args: Sequence[Any], kwargs: Mapping[str, Any], device: str
) -> tuple[RRef[_Hosted], RRef[Module]]:
    module = module_cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise ModuleError(
            f"RemoteModule: {getattr(module_cls, '__qualname__', module_cls)} gave a "
            f"{type(module).__name__}; "
            "wanted something that makes a Module"
        )
    if device != "cpu":
        module = module.to(device)
    return RRef(_Hosted(module, device)), RRef(module)
