"""`Tensor`: an array that remembers how it was computed."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from time import perf_counter
from typing import Any, Self

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError, DTypeError, ShapeError
from shardwise.tensor.autograd import backward
from shardwise.tensor.diagnosis import check_finite, explained
from shardwise.tensor.function import Context, Function
from shardwise.tensor.handle import RemovableHandle
from shardwise.tensor.methods.assignment import Assignment
from shardwise.tensor.methods.calculation import Calculation
from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.methods.casting import Casting
from shardwise.tensor.methods.copying import Copying
from shardwise.tensor.methods.elementwise import Elementwise
from shardwise.tensor.methods.exponential import Exponential
from shardwise.tensor.methods.filling import Filling
from shardwise.tensor.methods.in_place_function import InPlaceFunctions
from shardwise.tensor.methods.in_place_logic import InPlaceLogic
from shardwise.tensor.methods.interchange import Interchange
from shardwise.tensor.methods.linear import LinearAlgebra
from shardwise.tensor.methods.logic import Logic
from shardwise.tensor.methods.making import Making
from shardwise.tensor.methods.ordering import Ordering
from shardwise.tensor.methods.printing import Printing
from shardwise.tensor.methods.repetition import Repetition
from shardwise.tensor.methods.rounding import Rounding
from shardwise.tensor.methods.scan import Scan
from shardwise.tensor.methods.special_function import SpecialFunctions
from shardwise.tensor.methods.splitting import Splitting
from shardwise.tensor.methods.statistics import Statistics
from shardwise.tensor.methods.triangle import Triangle
from shardwise.tensor.methods.trigonometry import Trigonometry
from shardwise.tensor.mode import Mode, current_mode
from shardwise.tensor.narrow import forward_wide, is_narrow
from shardwise.tensor.tape import Node, annotate, record, record_many, trace_saved

__all__ = ["Tensor"]


_new = object.__new__  # what is made here needs no checks, and __init__ costs a call
_NO_NEED = ((), (False,), (False, False))
_ONE, _FIRST, _SECOND, _BOTH = (True,), (True, False), (False, True), (True, True)
_NOT_ARRAYS = frozenset({list, tuple, int, float, complex, bool, str})


class Tensor(
    Calculation,
    Exponential,
    SpecialFunctions,
    Trigonometry,
    Rounding,
    Logic,
    Elementwise,
    LinearAlgebra,
    Statistics,
    Scan,
    Ordering,
    Assignment,
    Splitting,
    Repetition,
    Triangle,
    Casting,
    Making,
    InPlaceLogic,
    InPlaceFunctions,
    Filling,
    Copying,
    Interchange,
    Printing,
):
    """An array with a gradient.

    Parameters
    ----------
    data : Array
        A NumPy array, CuPy array or `ShapeArray`. It is not copied; `shardwise.tensor` makes
        tensors of lists and numbers.
    requires_grad : bool
        Record what is done with it, so that `backward` can fill `grad`.

    Attributes
    ----------
    data : Array
        The array itself. Writing into it behind the tape's back is at your own risk;
        `add_`, `copy_` and the like are watched.
    grad : Tensor or None
        The accumulated gradient, of the same shape, dtype and device.
    node : Node or None
        The op that made it; None for a leaf.
    """

    __array_priority__ = 1000

    # On the class, because most tensors need none of them: a result costs one attribute to make.
    grad: Tensor | None = None
    sink: Array | None = None
    hooks: list[Callable[[Tensor], Tensor | None]] | None = None
    post_hooks: list[Callable[[Tensor], None]] | None = None

    def __init__(self, data: Array, requires_grad: bool = False) -> None:
        if data.__class__ in _NOT_ARRAYS:
            raise DTypeError(
                f"Tensor wraps an array, and got a {type(data).__name__}; shardwise.tensor() makes one of it"
            )
        self.data = data
        if requires_grad:
            self.requires_grad_()

    # ---- the door

    @staticmethod
    def __apply__(function: type[Function], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        mode = current_mode()
        count = len(args)
        if params or count > 2 or mode.watched:
            return _apply(function, args, params, mode)
        # Most calls have one or two inputs and no parameters: they take as few steps as can be.
        a = args[0]
        if isinstance(a, Tensor):
            x, needs_a = a.data, a.requires_grad
            narrow = x.itemsize == 2
        else:
            x, needs_a, narrow = a, False, False
        if count == 2:
            b = args[1]
            if isinstance(b, Tensor):
                y, needs_b = b.data, b.requires_grad
                if y.itemsize == 2 or (x is y and a is not b):
                    return _apply(function, args, params, mode)
            else:
                y, needs_b = b, False
            tracked = (needs_a or needs_b) and mode.grad
        else:
            tracked = needs_a and mode.grad
        if narrow or function.view:
            return _apply(function, args, params, mode)
        ctx: Any
        if tracked:
            ctx = _new(Node)
            if count == 1:
                ctx.need = _ONE
            elif needs_b:
                ctx.need = _BOTH if needs_a else _SECOND
            else:
                ctx.need = _FIRST
        else:
            ctx = _new(Context)
            ctx.need = _NO_NEED[count]
        ctx.saved = ()
        try:
            result = function.forward(ctx, x, y) if count == 2 else function.forward(ctx, x)
        except (TypeError, ValueError) as error:
            better = explained(function, [getattr(arg, "data", arg) for arg in args], error)
            if better is None:
                raise
            raise better from error
        if type(result) is tuple:
            outs = tuple([Tensor(_as_array(out, ctx, function)) for out in result])
            if tracked:
                record_many(ctx, function, args, (x, y) if count == 2 else (x,), outs)
            return outs
        out = _new(Tensor)
        out.data = result if type(result) is np.ndarray else _as_array(result, ctx, function)
        if tracked:
            record(ctx, function, args, out)
            if ctx.saved:
                trace_saved(ctx, args, (x, y) if count == 2 else (x,), (out,))
        return out

    def wrap(self, array: Array) -> Tensor:
        """Make a tensor, without history, of an array; of the class that the array names, if it does."""
        kind: Any = Tensor if type(array) is np.ndarray else getattr(array, "tensor_class", Tensor)
        out: Tensor = kind(array)
        return out

    # ---- gradients

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor."""
        return self.node is None

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Record (or stop recording) what is done with this leaf."""
        if requires_grad and self.data.dtype.kind not in "fcV":
            raise DTypeError(
                f"only floating-point and complex tensors can require grad, not {self.data.dtype}; cast with "
                "astype() first"
            )
        if not requires_grad and self.node is not None:
            raise AutogradError("only a leaf can stop requiring grad; use detach()")
        self.requires_grad = requires_grad
        return self

    def detach(self) -> Tensor:
        """Return the same memory without history."""
        out = self.wrap(self.data)
        out._version = self.version
        return out

    def backward(
        self, gradient: Operand | None = None, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Add the gradient of this tensor to the ``grad`` of every leaf it was computed from.

        Parameters
        ----------
        gradient : Tensor or Array, optional
            Gradient of the final result with respect to this tensor; 1 if this is a scalar.
        retain_graph : bool
            Keep the saved arrays for another backward.
        create_graph : bool
            Record the backward itself, for gradients of gradients.
        """
        backward((self,), None if gradient is None else (gradient,), retain_graph, create_graph)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` with this tensor's complete gradient; what it returns replaces it."""
        if not self.requires_grad:
            raise AutogradError(
                "cannot register a hook on a tensor that does not require grad, since it gets no gradient; "
                "call requires_grad_() first"
            )
        if self.node is None:
            self.hooks = self.hooks if self.hooks is not None else []
            hooks = self.hooks
        else:
            if self.node._hooks is None:
                self.node._hooks = {}
            hooks = self.node._hooks.setdefault(self.index, [])
        hooks.append(hook)
        return RemovableHandle(hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` once per backward, when this leaf's ``grad`` is complete."""
        if not self.requires_grad or self.node is not None:
            raise AutogradError(
                "a post-accumulate hook belongs on a leaf that requires grad, and this tensor "
                + (
                    f"is the result of {self.node}; use register_hook()"
                    if self.requires_grad
                    else "does not; call requires_grad_() first"
                )
            )
        if self.post_hooks is None:
            self.post_hooks = []
        self.post_hooks.append(hook)
        return RemovableHandle(self.post_hooks, hook)

    def retain_grad(self) -> None:
        """Keep ``grad`` of this tensor although it is not a leaf."""
        if not self.requires_grad:
            raise AutogradError(
                "cannot retain the gradient of a tensor that does not require grad, since it gets none; call "
                "requires_grad_() first"
            )
        if self.node is not None:
            if self.node._retained is None:
                self.node._retained = {}
                self.node._hooks = self.node._hooks or {}
            self.node._retained[self.index] = weakref.ref(self)

    def grad_into(self, sink: Array | None) -> None:
        """Have the engine write and add this leaf's gradient into `sink`, an array of its own.

        ``grad`` is then a tensor over `sink`. None goes back to arrays of the engine's making.
        """
        if sink is not None and (sink.shape != self.data.shape or sink.dtype != self.data.dtype):
            raise ShapeError(
                f"a gradient sink must have shape {self.data.shape} and dtype {self.data.dtype}, "
                f"got {sink.shape} and {sink.dtype}"
            )
        self.sink = sink


def _apply(function: type[Function], args: tuple[Any, ...], params: dict[str, Any], mode: Mode) -> Any:
    """Run any op on tensors: all that `Tensor.__apply__` has no short way for."""
    arrays: list[Any] = []
    needs: list[bool] = []
    narrow = False
    for arg in args:
        if isinstance(arg, Tensor):
            data = arg.data
            arrays.append(data)
            needs.append(arg.requires_grad)
            if data.itemsize == 2 and is_narrow(data):
                narrow = True
        else:
            arrays.append(arg)
            needs.append(False)
    tracked = True in needs and mode.grad
    ctx: Context
    if tracked:
        ctx = Node(tuple(needs))
        if len(args) > 1:
            _tell_apart(args, arrays)
    else:
        ctx = Context((False,) * len(needs))
    timer = mode.timer
    start = 0.0 if timer is None else perf_counter()
    try:
        if narrow and not (function.exact or function.view):
            result = forward_wide(function, ctx, arrays, params)
        else:
            result = function.forward(ctx, *arrays, **params)
    except (TypeError, ValueError) as error:
        better = explained(function, arrays, error)
        if better is None:
            raise
        raise better from error
    if timer is not None:
        timer.forward(function, start)
    many = type(result) is tuple
    if many:
        outs = tuple([Tensor(_as_array(out, ctx, function)) for out in result])
    else:
        out = _new(Tensor)
        out.data = result if type(result) is np.ndarray else _as_array(result, ctx, function)
        outs = (out,)
    if mode.anomaly:
        check_finite(function, [out.data for out in outs], arrays)
    if isinstance(ctx, Node):
        if many:
            record_many(ctx, function, args, arrays, outs)
        else:
            record(ctx, function, args, out)
            if ctx.saved:
                trace_saved(ctx, args, arrays, outs)
        if mode.watched:
            annotate(ctx, mode)
    if function.view and isinstance(args[0], Tensor):
        for out in outs:
            out.look_at(args[0])
    return outs if many else outs[0]


def _tell_apart(args: tuple[Any, ...], arrays: list[Any]) -> None:
    """Give inputs that share one array, as ``x`` and ``x.detach()`` do, an array object each.

    What an op saves is found among its inputs by identity.
    """
    owners: dict[int, Any] = {}
    for i, arg in enumerate(args):
        if isinstance(arg, Tensor) and owners.setdefault(id(arrays[i]), arg) is not arg:
            arrays[i] = arrays[i][...]


def _as_array(out: Any, ctx: Context, function: type[Function]) -> Any:
    """Undo NumPy's habit of giving scalars for results without dims, in what was saved as well."""
    if isinstance(out, np.generic):
        array = np.asarray(out)
        ctx.saved = tuple([array if saved is out else saved for saved in ctx.saved])
        return array
    if isinstance(out, Tensor):  # it was computed with, but not differentiated
        raise DTypeError(
            f"{function.__name__} got a tensor where it takes a number or an option; pass x.item() there"
        )
    if not hasattr(out, "dtype"):
        raise DTypeError(
            f"forward of {function.__name__} returned a {type(out).__name__}; return an array, or a tuple of "
            "arrays"
        )
    return out
