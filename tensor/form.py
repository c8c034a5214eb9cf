"""Methods of a tensor as functions, which also take plain arrays: what `function_form` is made with.

A function has the arguments of its method; the tensor comes first, and is called ``input``. Plain arrays give
plain arrays. Each maker below says to type checkers what kind of result its functions have; all of them make
the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.backend.select import BACKENDS
from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.methods.result import ValuesIndices
from shardwise.tensor.tensor import Tensor

__all__ = [
    "Form", "PairForm", "PartsForm", "PowerForm", "TwoForm", "X", "fact", "form", "pair_form", "parts_form",
    "power_form", "two_form",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")
X = TypeVar("X", Tensor, Array)
Plain: TypeAlias = Array | np.generic | complex


class Form(Protocol[P]):
    """A function that gives one tensor, or one array of an array."""

    def __call__(self, input: X, *args: P.args, **kwargs: P.kwargs) -> X:
        """Return what the method of the same name does."""


class PartsForm(Protocol[P]):
    """A function that gives several tensors."""

    def __call__(self, input: X, *args: P.args, **kwargs: P.kwargs) -> tuple[X, ...]:
        """Return what the method of the same name does."""


class PairForm(Protocol[P]):
    """A function that gives values and indices."""

    def __call__(self, input: X, *args: P.args, **kwargs: P.kwargs) -> ValuesIndices[X]:
        """Return what the method of the same name does."""


class TwoForm(Protocol):
    """A function of two operands, of which either may be a number."""

    @overload
    def __call__(self, input: Tensor, other: Operand) -> Tensor: ...
    @overload
    def __call__(self, input: Plain, other: Tensor) -> Tensor: ...
    @overload
    def __call__(self, input: Array, other: Plain) -> Array: ...
    @overload
    def __call__(self, input: np.generic | complex, other: Array) -> Array: ...
    def __call__(self, input: Operand, other: Operand) -> Tensor | Array:
        """Return what the method of the same name does."""


class PowerForm(Protocol):
    """A function of base and exponent, of which either may be a number."""

    @overload
    def __call__(self, input: Tensor, exponent: Operand) -> Tensor: ...
    @overload
    def __call__(self, input: Plain, exponent: Tensor) -> Tensor: ...
    @overload
    def __call__(self, input: Array, exponent: Plain) -> Array: ...
    @overload
    def __call__(self, input: np.generic | complex, exponent: Array) -> Array: ...
    def __call__(self, input: Operand, exponent: Operand) -> Tensor | Array:
        """Return what the method of the same name does."""


def form(method: Callable[Concatenate[Tensor, P], Tensor], numbers: bool = False) -> Form[P]:
    """Make a function of a method that gives one tensor.

    With `numbers` the first operand may be a number if another is a tensor or an array.

    Examples
    --------
    >>> import numpy as np
    >>> exp = form(Tensor.exp)
    >>> exp(np.zeros(2)), exp(Tensor(np.zeros(2)))
    (array([1., 1.]), tensor([1., 1.], dtype=float64))
    """
    function: Form[P] = _function(method, numbers)
    return function


def parts_form(method: Callable[Concatenate[Tensor, P], tuple[Tensor, ...]]) -> PartsForm[P]:
    """Make a function of a method that gives a tuple of tensors."""
    function: PartsForm[P] = _function(method)
    return function


def pair_form(method: Callable[Concatenate[Tensor, P], ValuesIndices[Tensor]]) -> PairForm[P]:
    """Make a function of a method that gives values and indices."""
    function: PairForm[P] = _function(method)
    return function


def fact(method: Callable[Concatenate[Tensor, P], R]) -> Callable[Concatenate[Tensor | Array, P], R]:
    """Make a function of a method that gives something else, or now this and now that."""
    function: Callable[Concatenate[Tensor | Array, P], R] = _function(method)
    return function


def two_form(method: Callable[[Tensor, Operand], Tensor]) -> TwoForm:
    """Make a function of a method with one more operand: a number may come first, if that is an array.

    Examples
    --------
    >>> import numpy as np
    >>> two_form(Tensor.pow)(2.0, np.array([1.0, 3.0]))
    array([2., 8.])
    """
    function: TwoForm = _function(method, numbers=True)
    return function


def power_form(method: Callable[[Tensor, Operand], Tensor]) -> PowerForm:
    """Make a function of base and exponent; see `two_form`."""
    function: PowerForm = _function(method, numbers=True)
    return function


def _function(method: Callable[..., Any], numbers: bool = False) -> Any:
    @wraps(method)
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(input, Tensor) and "out" not in kwargs:
            return method(input, *args, **kwargs)
        out = kwargs.pop("out", None)
        result = _result(method, numbers, input, args, kwargs)
        return result if out is None else _written(_name(method), out, result)

    function.__name__ = function.__qualname__ = _name(method)
    function.__module__ = "shardwise.tensor.function_form"  # which lists it, so that pickles find it
    return function


def _result(
    method: Callable[..., Any], numbers: bool, input: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a method on something that may be a tensor, an array or a number."""
    if isinstance(input, Tensor):
        return method(input, *args, **kwargs)
    others = [*args, *kwargs.values()]
    if _is_array(input):
        tensor = Tensor(np.asarray(input) if isinstance(input, np.generic) else input)
        result = method(tensor, *args, **kwargs)
        return result if any(map(_holds_tensor, others)) else _plain(result)
    number = isinstance(input, (bool, int, float, complex))
    if numbers and number and any(isinstance(other, Tensor) or _is_array(other) for other in others):
        result = method(input, *args, **kwargs)
        return np.asarray(result) if isinstance(result, np.generic) else result
    kind = type(input)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    given = f"the {name} {input!r}" if number else f"a {name}"
    raise DTypeError(
        f"{_name(method)}: wanted a tensor or an array, got {given}; make a tensor of it with sw.tensor()"
    )


def _name(method: Callable[..., Any]) -> str:
    return method.__name__.lstrip("_")


def _is_array(value: object) -> bool:
    return any(backend.owns(value) for backend in BACKENDS)


def _holds_tensor(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_tensor, value))
    return isinstance(value, Tensor)


def _plain(result: Any) -> Any:
    """Return results as arrays, in the tuple that they came in."""
    if isinstance(result, Tensor):
        return result.data
    if isinstance(result, tuple):
        arrays = [_plain(each) for each in result]
        return type(result)(*arrays) if hasattr(result, "_fields") else tuple(arrays)
    return result


def _written(name: str, out: Any, result: Any) -> Any:
    """Write a result into what the caller gave as ``out``, and return that."""
    fits = getattr(out, "shape", None) == getattr(result, "shape", ())
    if isinstance(out, Tensor) and fits:
        return out.copy_(result)
    if _is_array(out) and fits and not isinstance(result, Tensor):
        np.copyto(out, result, casting="same_kind")
        return out
    wanted = f"one of shape {result.shape}" if hasattr(result, "shape") else "none: there are several results"
    given = f"one of shape {out.shape}" if hasattr(out, "shape") else f"a {type(out).__name__}"
    raise ArgumentError(f"{name}: out: wanted {wanted}, got {given}; copy_() writes into any tensor")
