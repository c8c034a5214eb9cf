"""What formulas need and NumPy lacks, for every kind of array.

Each function here works by the type of its first array argument, as NumPy's own functions do:

* ``numpy.ndarray``: computed here;
* ``cupy.ndarray``: by :mod:`shardwise.backend.cuda`;
* any other type must offer ``__array_special__(self, function, args, kwargs)``, where `function` is the
  function of this module that was called (``ShapeArray`` and ``Tensor`` do).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from shardwise.backend import cuda
from shardwise.backend.array import Array, Shape
from shardwise.backend.bessel import i0_float64, i0e_float64, i1_float64, i1e_float64
from shardwise.backend.error_function import erf_float64, erfc_float64, erfinv_float64
from shardwise.backend.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.backend.gamma import digamma_float64, lgamma_float64, polygamma_float64
from shardwise.backend.kernels.reduction.top import top_indices_of
from shardwise.backend.scatter import added_at

__all__ = [
    "POINTWISE", "SPECIAL_FUNCTIONS", "Index", "accumulate", "combine_at", "digamma", "erf", "erfc", "erfinv",
    "i0", "i0e", "i1", "i1e", "lgamma", "polygamma", "scatter_add", "sigmoid", "top_indices",
]  # fmt: skip

Index: TypeAlias = Array | tuple[Array | slice | int, ...]


def erf(x: Array) -> Array:
    """The error function, elementwise.

    Parameters
    ----------
    x : array
        Real, any shape. Integers and booleans are taken as float64.

    Returns
    -------
    array
        Of `x`'s shape and, for floating `x`, its dtype; within 5 ulp in float64 and 1 ulp below.

    Raises
    ------
    DTypeError
        For complex `x`.

    Examples
    --------
    >>> erf(np.array([-np.inf, 0.0, np.inf]))
    array([-1.,  0.,  1.])
    """
    return _pointwise(erf, cuda.erf, erf_float64, x)


def erfc(x: Array) -> Array:
    """``1 - erf(x)``, elementwise, within 6 ulp also where erf is nearly 1; see :func:`erf`."""
    return _pointwise(erfc, cuda.erfc, erfc_float64, x)


def erfinv(x: Array) -> Array:
    """The inverse of :func:`erf`, elementwise, within 5 ulp: infinite at -1 and 1, NaN beyond."""
    return _pointwise(erfinv, cuda.erfinv, erfinv_float64, x)


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``, elementwise, within 2 ulp on both sides of 0, and without overflow."""
    return _pointwise(sigmoid, cuda.sigmoid, _sigmoid_float64, x)


def lgamma(x: Array) -> Array:
    """``log(|gamma(x)|)``, elementwise, within 4 ulp for positive `x`: infinite at 0, -1, -2, ..."""
    return _pointwise(lgamma, cuda.lgamma, lgamma_float64, x)


def digamma(x: Array) -> Array:
    """The derivative of :func:`lgamma`, elementwise, within 4 ulp for positive `x`; NaN at -1, -2, ..."""
    return _pointwise(digamma, cuda.digamma, digamma_float64, x)


def polygamma(n: int, x: Array) -> Array:
    """The derivative of order `n` of :func:`digamma`, elementwise.

    Parameters
    ----------
    n : int
        0 or more.
    x : array
        As in :func:`erf`.

    Raises
    ------
    ArgumentError
        For a negative `n`.
    """
    if operator.index(n) < 0:
        raise ArgumentError(f"polygamma: the order must be at least 0, got {n}.")
    return _pointwise(polygamma, cuda.polygamma, polygamma_float64, x, n)


def i0(x: Array) -> Array:
    """The modified Bessel function of order 0, elementwise, within 8 ulp."""
    return _pointwise(i0, cuda.i0, i0_float64, x)


def i0e(x: Array) -> Array:
    """``exp(-|x|) * i0(x)``, elementwise, within 8 ulp."""
    return _pointwise(i0e, cuda.i0e, i0e_float64, x)


def i1(x: Array) -> Array:
    """The modified Bessel function of order 1, the derivative of :func:`i0`, elementwise, within 8 ulp."""
    return _pointwise(i1, cuda.i1, i1_float64, x)


def i1e(x: Array) -> Array:
    """``exp(-|x|) * i1(x)``, elementwise, within 8 ulp."""
    return _pointwise(i1e, cuda.i1e, i1e_float64, x)


def scatter_add(base_shape: Shape, index: Index, updates: Array) -> Array:
    """Zeros of `base_shape`, with `updates` added at `index`; places that repeat add up.

    It is the adjoint of indexing: the gradient of ``base[index]`` is ``scatter_add(base.shape, index,
    gradient)``. With an integer array for `index` it is the gradient of an embedding.

    Parameters
    ----------
    base_shape : tuple of int
        Shape of the result.
    index : integer array, or tuple as NumPy's indexing takes
        Negative entries count from the end.
    updates : array
        Broadcast to the shape of ``base[index]``.

    Returns
    -------
    array
        Shape `base_shape`, dtype of `updates`. Repeated places are added in the order of `index`, so
        that the result is the same from run to run.

    Raises
    ------
    IndexRangeError
        If an entry of `index` is outside `base_shape` (checked on the CPU only: a GPU would have to
        wait for the answer).
    ShapeError
        If `updates` does not broadcast to the indexed shape.

    Examples
    --------
    >>> scatter_add((3,), np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]))
    array([1., 0., 5.])
    """
    if type(updates) is not np.ndarray:
        return _elsewhere(scatter_add, cuda.scatter_add, updates, (base_shape, index, updates))
    if not isinstance(index, tuple) and type(index) is not np.ndarray:
        return _elsewhere(scatter_add, cuda.scatter_add, index, (base_shape, index, updates))
    try:
        return added_at(tuple(base_shape), index if isinstance(index, tuple) else (index,), updates)
    except IndexError as error:
        raise IndexRangeError(
            f"scatter_add: the index does not fit an array of shape {tuple(base_shape)}: {error}. "
            "Check the labels or token ids that were used as an index."
        ) from error
    except ValueError as error:
        raise ShapeError(
            f"scatter_add: updates of shape {updates.shape} do not broadcast to what the index selects "
            f"from shape {tuple(base_shape)}: {error}."
        ) from error


def combine_at(operation: np.ufunc, base: Array, index: Index, updates: Array) -> Array:
    """A copy of `base`, combined at `index` with `updates`, those of places that repeat one after the other.

    Parameters
    ----------
    operation : ufunc
        ``numpy.multiply``, ``numpy.maximum`` or ``numpy.minimum``; `scatter_add` adds.
    base : array
    index : integer array, or tuple as NumPy's indexing takes
    updates : array
        Broadcast to the shape of ``base[index]``.

    Returns
    -------
    array
        Shape and dtype of `base`.

    Examples
    --------
    >>> combine_at(np.multiply, np.ones(2), np.array([1, 1]), np.array([2.0, 3.0]))
    array([1., 6.])
    """
    if type(base) is not np.ndarray:
        return _elsewhere(combine_at, cuda.combine_at, base, (operation, base, index, updates))
    result = base.copy()
    with np.errstate(invalid="ignore"):  # unlike the ufunc itself, it warns of NaN
        operation.at(result, index, updates)  # type: ignore[arg-type]  # NumPy's stubs leave tuples out
    return result


def accumulate(operation: np.ufunc, x: Array, dim: int) -> Array:
    """Running results along a dim: ``operation(... operation(x[0], x[1]) ..., x[i])`` at place i.

    Parameters
    ----------
    operation : ufunc
        Of two operands, associative: ``numpy.maximum``, ``numpy.logaddexp`` and the like.
    x : array
        Any shape.
    dim : int
        Counted from the front.

    Returns
    -------
    array
        Of `x`'s shape.

    Examples
    --------
    >>> accumulate(np.maximum, np.array([1, 3, 2]), 0)
    array([1, 3, 3])
    """
    if type(x) is not np.ndarray:
        return _elsewhere(accumulate, cuda.accumulate, x, (operation, x, dim))
    with np.errstate(invalid="ignore"):  # logaddexp of NaN warns
        result: Array = operation.accumulate(x, axis=dim)
    return result


def top_indices(x: Array, k: int, dim: int, largest: bool) -> Array:
    """Where the `k` largest (or smallest) elements along a dim are, best first.

    Parameters
    ----------
    x : real array, any shape
        NaN counts as the largest.
    k : int
        From 0 to the length of the dim.
    dim : int
        Counted from the front.
    largest : bool

    Returns
    -------
    array of int64
        Shape of `x` with `k` in place of the dim. Of equal elements the first come first.

    Examples
    --------
    >>> top_indices(np.array([1.0, 3.0, 2.0]), 2, 0, True)
    array([1, 2])
    """
    if type(x) is not np.ndarray:
        return _elsewhere(top_indices, cuda.top_indices, x, (x, k, dim, largest))
    return top_indices_of(x, k, dim, largest)


POINTWISE = (erf, erfc, erfinv, sigmoid, lgamma, digamma, polygamma, i0, i0e, i1, i1e)
"""Functions that keep the shape of their last argument, and its dtype where that is floating."""

SPECIAL_FUNCTIONS = (accumulate, combine_at, top_indices, scatter_add, *POINTWISE)
"""Every function that a type's ``__array_special__`` may be given."""


def _sigmoid_float64(x: Array) -> Array:
    with np.errstate(over="ignore"):  # where the result is 0
        result: Array = 1.0 / (1.0 + np.exp(-x))
    return result


def _pointwise(
    function: Callable[..., Array],
    on_cuda: Callable[..., Array],
    formula: Callable[..., Array],
    x: Array,
    *first: int,
) -> Array:
    """Run a formula for float64 on any real array; `first` are the arguments before the array."""
    if type(x) is not np.ndarray:
        return _elsewhere(function, on_cuda, x, (*first, x))
    if x.dtype.kind not in "fiub" and not _is_narrow_float(x.dtype):
        raise DTypeError(
            f"{function.__name__} takes real numbers, and got an array of {x.dtype}. "
            "Take its .real part first."
        )
    result = np.asarray(formula(*first, x.astype(np.float64)))
    if x.dtype.kind in "iub":
        return result
    with np.errstate(over="ignore"):  # beyond the range of a narrower float lies infinity
        return result.astype(x.dtype, copy=False)


def _elsewhere(
    function: Callable[..., Array], on_cuda: Callable[..., Array], array: object, args: tuple[object, ...]
) -> Array:
    """Answer for an array that is not NumPy's."""
    kind = type(array)
    if hasattr(kind, "__array_special__"):
        result: Array = kind.__array_special__(array, function, args, {})
        if result is not NotImplemented:
            return result
    if cuda.is_cuda_array(array):
        return on_cuda(*args)
    if isinstance(array, np.ndarray | np.generic | float | int):
        plain = tuple(np.asarray(arg) if arg is array else arg for arg in args)
        return function(*plain)
    raise DTypeError(
        f"{function.__name__} takes NumPy or CuPy arrays, or a type with __array_special__, and got "
        f"{kind.__module__}.{kind.__qualname__}. Convert it with numpy.asarray."
    )


def _is_narrow_float(dtype: np.dtype[np.generic]) -> bool:
    """Whether `dtype` is bfloat16 or another float of ml_dtypes, which NumPy gives no kind of its own."""
    return dtype.kind == "V" and dtype.name.startswith(("bfloat", "float"))
