"""`Module`: a tree of parameters with a forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.errors import DTypeError, ModuleError
from shardwise.backend.select import is_device
from shardwise.nn.attribute import Attributes
from shardwise.nn.parameter import Parameter
from shardwise.nn.state import fill
from shardwise.tensor import RemovableHandle, Tensor, no_grad, random

__all__ = ["Module"]


class Module(Attributes):
    """The base of all layers and models. Define ``__init__`` and ``forward``; call the module.

    Parameters, buffers and submodules are found by assignment: ``self.weight = Parameter(...)``.

    Attributes
    ----------
    training : bool
        Set by `train` and `eval`; dropout looks at it.
    """

    transparent: ClassVar[bool] = False
    """A wrapper such as DDP: random streams are named as if the wrapped module were called."""

    training: bool

    _modules: dict[str, Module | None]
    _forward_pre_hooks: list[Callable[..., Any]]
    _forward_hooks: list[Callable[..., Any]]

    def __init__(self) -> None:
        super().__init__()
        for name in ("_forward_pre_hooks", "_forward_hooks"):
            object.__setattr__(self, name, [])
        object.__setattr__(self, "training", True)

    # ---- calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; every module defines its own."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        scope = random.scope()
        if scope is None and not self.transparent:
            with random.enter(random.Scope(self._paths)):
                return self(*args, **kwargs)
        if scope is None:
            return self._run(args, kwargs)
        scope.stack.append(self)
        try:
            return self._run(args, kwargs)
        finally:
            scope.stack.pop()

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for pre_hook in tuple(self._forward_pre_hooks):
            changed = pre_hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        output = self.forward(*args, **kwargs)
        for hook in tuple(self._forward_hooks):
            changed = hook(self, args, output)
            if changed is not None:
                output = changed
        return output

    def _paths(self) -> dict[int, str]:
        return {id(module): path for path, module in self.named_modules()}

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; what it returns replaces the arguments."""
        self._forward_pre_hooks.append(hook)
        return RemovableHandle(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; what it returns replaces the output."""
        self._forward_hooks.append(hook)
        return RemovableHandle(self._forward_hooks, hook)

    # ---- the tree

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule."""
        self.check_part(name, module, Module)
        self._modules[name] = module

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield every module of the tree once, with its dotted path; this one first."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            children = [
                (f"{path}.{name}" if path else name, m)
                for name, m in module._modules.items()
                if m is not None
            ]
            stack.extend(reversed(children))

    def modules(self) -> Iterator[Module]:
        """Yield every module of the tree once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names."""
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules."""
        return (module for _, module in self.named_children())

    def _named(self, table: str, prefix: str, recurse: bool, duplicates: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        walk = self._all_paths(prefix) if duplicates and recurse else self.named_modules(prefix)
        for path, module in walk:
            for name, value in module.__dict__[table].items():
                if value is not None and (duplicates or id(value) not in seen):
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value
            if not recurse:
                return

    def _all_paths(self, prefix: str) -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, module in self.named_children():
            yield from module._all_paths(f"{prefix}.{name}" if prefix else name)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield each parameter with its dotted name; once, unless `remove_duplicate` is False."""
        return self._named("_parameters", prefix, recurse, not remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield each parameter once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield each buffer once, with its dotted name."""
        return self._named("_buffers", prefix, recurse, False)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield each buffer once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """Return the module at a dotted path; ``""`` is this one."""
        module: Module = self
        for name in target.split(".") if target else ():
            child = module._modules.get(name)
            if child is None:
                raise ModuleError(f"{type(self).__name__} has no submodule {target!r} (stopped at {name!r})")
            module = child
        return module

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        parameter = self.get_submodule(path)._parameters.get(name)
        if parameter is None:
            raise ModuleError(f"{type(self).__name__} has no parameter {target!r}")
        return parameter

    # ---- state

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Return parameters and persistent buffers by name, over the module's own memory."""
        state: dict[str, Tensor] = {}
        for path, module in self._all_paths(prefix.removesuffix(".")):
            dot = f"{path}." if path else ""
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    state[dot + name] = parameter.detach()
            for name, buffer in module._buffers.items():
                if buffer is not None and module._persistent[name]:
                    state[dot + name] = buffer.detach()
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor | Array], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Copy values into parameters and buffers, cast to their dtypes.

        Parameters
        ----------
        state_dict : mapping of str to Tensor or Array
        strict : bool
            Raise if names are missing or unexpected.

        Returns
        -------
        missing, unexpected : list of str

        Raises
        ------
        ModuleError
            Names or shapes that do not fit: all of them, in one message. Nothing is loaded then.
        """
        return fill(self.state_dict(), state_dict, strict, type(self).__name__)

    def apply(self, function: Callable[[Module], object]) -> Self:
        """Call `function` on every module of the tree, children first."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Put the whole tree into training mode (or out of it)."""
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self) -> Self:
        """Put the whole tree out of training mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Have all parameters learn, or none."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                with no_grad():
                    parameter.grad.zero_()

    def to(self, *targets: DTypeLike) -> Self:
        """Move all parameters and buffers to a device, or cast the floating ones to a floating dtype."""
        for target in targets:
            if not (is_device(target) or _is_floating(target)):
                raise DTypeError(f"Module.to takes devices and floating or complex dtypes, not {target!r}")
        for name, tensor in (*self.named_parameters(), *self.named_buffers()):
            for target in targets:
                if not is_device(target) and tensor.dtype.kind not in "fcV":  # V: bfloat16
                    continue
                moved = tensor.detach().to(target).data
                if moved is not tensor.data and tensor.sink is not None:
                    raise ModuleError(
                        f"cannot move {name} to {target!r}: its gradients go into a bucket of "
                        "DistributedDataParallel. Call to() before wrapping."
                    )
                tensor.data = moved
                if tensor.grad is not None:
                    tensor.grad = tensor.grad.detach().to(target)
        return self

    def float(self) -> Self:
        """Cast floating parameters and buffers to float32."""
        return self.to(np.float32)

    def double(self) -> Self:
        """Cast floating parameters and buffers to float64."""
        return self.to(np.float64)

    # ---- showing

    def extra_repr(self) -> str:
        """Return what to show between the brackets of ``repr``."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {m!r}".replace("\n", "\n  ") for name, m in self.named_children()]
        if not children and "\n" not in extra:
            return f"{type(self).__name__}({extra})"
        lines = [*(extra.splitlines() if extra else ()), *children]
        return "\n  ".join([f"{type(self).__name__}(", *lines]) + "\n)"


def _is_floating(dtype: DTypeLike) -> bool:
    try:
        return np.dtype(dtype).kind in "fcV"
    except TypeError:
        return False
