"""`Module`: a tree of parameters with a forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

from shardwise.backend.errors import ModuleError
from shardwise.nn.hook import Crossing, Hook
from shardwise.nn.placement import Placement
from shardwise.nn.state import State
from shardwise.tensor import RemovableHandle, random

__all__ = ["Module"]


class Module(Placement, State):
    """The base of all layers and models. Define ``__init__`` and ``forward``; call the module.

    Parameters, buffers and submodules are found by assignment: ``self.weight = Parameter(...)``.

    Attributes
    ----------
    training : bool
        Set by `train` and `eval`; dropout looks at it.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(sw.ones(1))
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> model = nn.Sequential(nn.Linear(2, 3), Scale())
    >>> [name for name, _ in model.named_parameters()]
    ['0.weight', '0.bias', '1.factor']
    """

    transparent: ClassVar[bool] = False
    """A wrapper such as DDP: random streams are named as if the wrapped module were called."""

    training: bool

    _modules: dict[str, Module | None]
    _forward_pre_hooks: list[Hook]
    _forward_hooks: list[Hook]
    _backward_pre_hooks: list[Hook]
    _backward_hooks: list[Hook]

    def __init__(self) -> None:
        super().__init__()
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            object.__setattr__(self, name, [])
        object.__setattr__(self, "training", True)

    # ---- calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; every module defines its own."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        scope = random.scope()
        if scope is None and not self.transparent:
            with random.enter(random.Scope(self.module_paths)):
                return self(*args, **kwargs)
        if scope is None:
            return self.call_with_hooks(args, kwargs)
        scope.stack.append(self)
        try:
            return self.call_with_hooks(args, kwargs)
        finally:
            scope.stack.pop()

    def call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the forward between its hooks: all of a call but what random streams need to know of it."""
        watched = self._forward_pre_hooks or self._forward_hooks
        if not (watched or self._backward_pre_hooks or self._backward_hooks):
            return self.forward(*args, **kwargs)
        left = [hook for hook in self._forward_hooks if hook.always_call]
        try:
            return self._call_in_hooks(args, kwargs, left)
        except Exception:
            for hook in left:  # those that did not get their turn
                _call_forward_hook(hook, self, args, kwargs, None)
            raise

    def _call_in_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], left: list[Hook]) -> Any:
        for pre_hook in tuple(self._forward_pre_hooks):
            if pre_hook.with_kwargs:
                changed = pre_hook.call(self, args, kwargs)
                if changed is not None:
                    args, kwargs = _both(changed, type(self).__name__)
                continue
            changed = pre_hook.call(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        crossing = None
        inputs = args
        if self._backward_pre_hooks or self._backward_hooks:
            crossing = Crossing(self, tuple(self._backward_pre_hooks), tuple(self._backward_hooks))
            inputs = crossing.enter(args)
        output = self.forward(*inputs, **kwargs)
        for hook in tuple(self._forward_hooks):
            if hook in left:
                left.remove(hook)
            changed = _call_forward_hook(hook, self, args, kwargs, output)
            if changed is not None:
                output = changed
        return output if crossing is None else crossing.leave(output)

    def module_paths(self) -> dict[int, str]:
        """Return the dotted path of every module of the tree by its id: how random streams name modules."""
        return {id(module): path for path, module in self.named_modules()}

    # ---- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; what it returns replaces the arguments.

        With `with_kwargs` it is ``hook(module, args, kwargs)``, which returns None or both.
        """
        return _register(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; what it returns replaces the output.

        With `with_kwargs` it is ``hook(module, args, kwargs, output)``. With `always_call` it is called
        with None for the output where the forward raises.
        """
        return _register(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before each backward; what it returns replaces the gradients."""
        return _register(self._backward_pre_hooks, Hook(hook), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are there.

        Both are tuples, with one place per positional argument and per output, None where there is no
        gradient. An output that nobody used has a gradient of zeros. What the hook returns replaces
        `grad_input`. Under such a hook a module must not write into its inputs in place.
        """
        return _register(self._backward_hooks, Hook(hook), prepend)

    # ---- the tree

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule."""
        self._check_part(name, module, Module)
        self._modules[name] = module

    register_module = add_module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield every module of the tree with its dotted path, this one first; once, unless told otherwise.

        `memo` holds modules to leave out; those that are yielded are added to it.
        """
        for path, module in self._walk_tree(prefix, once=remove_duplicate):
            if memo is not None:
                if module in memo:
                    continue
                if remove_duplicate:
                    memo.add(module)
            yield path, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield every module of the tree; once, unless told otherwise."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names; one with several names once, under the first."""
        seen: set[int] = set()
        for name, module in self._named_parts():
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each once."""
        return (module for _, module in self.named_children())

    def get_submodule(self, target: str) -> Module:
        """Return the module at a dotted path; ``""`` is this one."""
        return self._submodule_at(target)

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path, in the place of one that is there; with `strict` one must be."""
        path, _, name = target.rpartition(".")
        owner = self._submodule_at(path)
        if strict and name not in owner._modules:
            raise ModuleError(
                f"{type(self).__name__} has no submodule {target!r} to replace; strict=False adds one"
            )
        owner._check_part(name, module, Module)
        owner._modules[name] = module

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` on every module of the tree, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes

    def train(self, mode: bool = True) -> Self:
        """Put the whole tree into training mode (or out of it)."""
        for module in self.children():
            module.train(mode)
        object.__setattr__(self, "training", bool(mode))
        return self

    def eval(self) -> Self:
        """Put the whole tree out of training mode."""
        return self.train(False)

    # ---- showing

    def _get_name(self) -> str:
        """Return the name of the class, as PyTorch's modules do for their own ``__repr__``."""
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what to show between the brackets of ``repr``."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {m!r}".replace("\n", "\n  ") for name, m in self._named_parts()]
        if not children and "\n" not in extra:
            return f"{type(self).__name__}({extra})"
        lines = [*(extra.splitlines() if extra else ()), *children]
        return "\n  ".join([f"{type(self).__name__}(", *lines]) + "\n)"


def _register(hooks: list[Hook], hook: Hook, prepend: bool) -> RemovableHandle:
    hooks.insert(0 if prepend else len(hooks), hook)
    return RemovableHandle(hooks, hook)


def _call_forward_hook(
    hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    if hook.with_kwargs:
        return hook.call(module, args, kwargs, output)
    return hook.call(module, args, output)


def _both(changed: Any, owner: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(changed, tuple) and len(changed) == 2 and isinstance(changed[1], dict):
        args, kwargs = changed
        return (args if isinstance(args, tuple) else (args,)), kwargs
    raise ModuleError(
        f"a forward pre-hook of {owner} with with_kwargs=True must return None or (args, kwargs), not "
        f"{type(changed).__name__}"
    )
