"""What is called around a module's forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.tensor import Context, Function, Tensor
from shardwise.tensor.function import Gradients
from shardwise.tensor.mode import current_mode
from shardwise.tensor.tape import Node, record_many

__all__ = ["Crossing", "Hook"]


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that was registered, and how it wants to be called."""

    call: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


def _boundary_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    terms = ",".join("".join(next(letters) for _ in shape) for shape in shapes)
    return f"{terms}->{terms}"


class _Boundary(Function):
    """Lets tensors through, and shows all their gradients at once to `watch`, which may replace them."""

    signature = _boundary_signature
    exact = True

    @staticmethod
    def flops(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> int:
        """Count nothing, because nothing is computed."""
        return 0

    @staticmethod
    def forward(
        ctx: Context, *values: Array, watch: Callable[[Sequence[Any]], Gradients]
    ) -> tuple[Array, ...]:
        ctx.watch = watch
        return values

    @staticmethod
    def backward(ctx: Context, *grads: Array) -> Gradients:
        shown: Gradients = ctx.watch(grads)
        return shown


class Crossing:
    """One call of a module whose backward is watched: its gradients on the way in, and on the way out.

    Parameters
    ----------
    module : object
        What hooks get as their first argument.
    pre_hooks : sequence of Hook
        ``hook(module, grad_output)``, before the module's backward.
    hooks : sequence of Hook
        ``hook(module, grad_input, grad_output)``, after it.
    """

    def __init__(self, module: object, pre_hooks: Sequence[Hook], hooks: Sequence[Hook]) -> None:
        self._module = module
        self._pre_hooks = pre_hooks
        self._hooks = hooks
        self._grad_output: tuple[Any, ...] = ()
        self._blind: tuple[None, ...] | None = None  # if no input needs a gradient: what hooks see of them

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, their gradients watched."""
        places = _places(args)
        if not places:
            self._blind = (None,) * len(args)
            return args
        return _watched(args, places, lambda grads: self._gone_through(grads, places, len(args)))

    def leave(self, output: Any) -> Any:
        """Return the outputs, their gradients watched: a Tensor, or a tuple or list of them."""
        outputs = tuple(output) if isinstance(output, (tuple, list)) else (output,)
        places = _places(outputs)
        if not places:
            return output
        watched = _watched(outputs, places, lambda grads: self._arrived(grads, places, len(outputs)))
        if isinstance(output, Tensor):
            return watched[0]
        named = getattr(output, "_make", None)
        return named(watched) if named is not None else type(output)(watched)

    def _arrived(self, grads: Sequence[Any], places: list[int], count: int) -> Gradients:
        self._grad_output = _spread([_shown(g) for g in grads], places, count)
        for hook in self._pre_hooks:
            self._grad_output = _replaced(
                hook.call(self._module, self._grad_output), self._grad_output, "grad_output"
            )
        if self._blind is not None:
            for hook in self._hooks:
                hook.call(self._module, self._blind, self._grad_output)
        return [_hidden(self._grad_output[i], g) for i, g in zip(places, grads, strict=True)]

    def _gone_through(self, grads: Sequence[Any], places: list[int], count: int) -> Gradients:
        grad_input = _spread([_shown(g) for g in grads], places, count)
        for hook in self._hooks:
            changed = hook.call(self._module, grad_input, self._grad_output)
            grad_input = _replaced(changed, grad_input, "grad_input")
        return [_hidden(grad_input[i], g) for i, g in zip(places, grads, strict=True)]


def _places(values: tuple[Any, ...]) -> list[int]:
    return [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]


def _watched(
    values: tuple[Any, ...], places: list[int], watch: Callable[[Sequence[Any]], Gradients]
) -> tuple[Any, ...]:
    tensors = [values[i] for i in places]
    sharded = any(hasattr(tensor.data, "tensor_class") for tensor in tensors)
    passed: Any = _passed(tensors, watch) if sharded else _Boundary.apply(*tensors, watch=watch)
    watched = list(values)
    for i, before, after in zip(places, tensors, passed, strict=True):
        after.look_at(before)  # the same memory: writes into it must be noticed
        watched[i] = after
    return tuple(watched)


def _passed(tensors: list[Any], watch: Callable[[Sequence[Any]], Gradients]) -> tuple[Any, ...]:
    """Let sharded tensors through as they are, whose ops would show parts of gradients, in other layouts."""
    if not current_mode().grad:
        return tuple(tensors)
    node = Node((True,) * len(tensors))
    node.watch = watch
    passed = tuple([tensor.wrap(tensor.data) for tensor in tensors])
    record_many(node, _Boundary, tuple(tensors), (), passed)
    return passed


def _spread(tensors: list[Any], places: list[int], count: int) -> tuple[Any, ...]:
    spread: list[Any] = [None] * count
    for i, tensor in zip(places, tensors, strict=True):
        spread[i] = tensor
    return tuple(spread)


def _shown(grad: Any) -> Tensor:
    if isinstance(grad, Tensor):
        return grad
    shown: Tensor = getattr(grad, "tensor_class", Tensor)(grad)
    return shown


def _hidden(shown: Any, given: Any) -> Any:
    """Return a gradient as the engine wants it: an array, or a Tensor where the backward is recorded."""
    if shown is None:
        return None
    return shown if isinstance(given, Tensor) else shown.data


def _replaced(changed: Any, grads: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """Return what a hook made of the gradients, checked."""
    if changed is None:
        return grads
    new = changed if isinstance(changed, tuple) else (changed,)
    fits = len(new) == len(grads) and all(
        n is None or (isinstance(n, Tensor) and g is not None and n.shape == g.shape)
        for n, g in zip(new, grads, strict=True)
    )
    if not fits:
        wanted = ", ".join("None" if g is None else str(g.shape) for g in grads)
        got = ", ".join(str(n.shape) if isinstance(n, Tensor) else type(n).__name__ for n in new)
        raise AutogradError(
            f"a backward hook must return None or a new {what}: tensors of shapes ({wanted}), or None for "
            f"one that is not there; it returned ({got})"
        )
    return new
