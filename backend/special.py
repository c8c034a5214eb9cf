"""What formulas need and NumPy lacks, for every kind of array.

Each function here works by the type of its first array argument, as NumPy's own functions do:

* ``numpy.ndarray``: computed here;
* ``cupy.ndarray``: by :mod:`shardwise.backend.cuda`;
* any other type must offer ``__array_special__(self, function, args, kwargs)``, where `function` is the
  function of this module that was called (``ShapeArray`` and ``Tensor`` do).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from shardwise.backend import cuda
from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import DTypeError, IndexRangeError, ShapeError
from shardwise.backend.ranking import top_indices_of
from shardwise.backend.scatter import added_at

__all__ = ["SPECIAL_FUNCTIONS", "Index", "accumulate", "combine_at", "erf", "scatter_add", "top_indices"]

Index: TypeAlias = Array | tuple[Array | slice | int, ...]

# W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969), as in
# his CALERF. Highest power first; the leading 1 of monic denominators is written out.
_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # fmt: skip
_MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
_MIDDLE_START, _MIDDLE_END = 0.46875, 4.0
# Above 4, 1 - erf(x) is below 1.6e-8, and above 6 it vanishes beside 1 in double precision; the middle
# formula stays within 1e-9 relative of it that far, which leaves an error of 2e-17 in erf.
_SATURATION = 6.0


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
    if type(x) is not np.ndarray:
        return _elsewhere(erf, cuda.erf, x, (x,))
    if x.dtype.kind not in "fiub" and not _is_narrow_float(x.dtype):
        raise DTypeError(f"erf takes real numbers, and got an array of {x.dtype}. Take its .real part first.")
    result = _erf_float64(x.astype(np.float64))
    return result if x.dtype.kind in "iub" else result.astype(x.dtype, copy=False)


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


SPECIAL_FUNCTIONS = (accumulate, combine_at, top_indices, erf, scatter_add)
"""Every function that a type's ``__array_special__`` may be given."""


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


def _erf_float64(x: Array) -> Array:
    magnitude = np.abs(x)
    small = magnitude <= _MIDDLE_START
    inner = np.where(small, x, 0.0)
    square = inner * inner
    near = inner * (_polynomial(_SMALL[0], square) / _polynomial(_SMALL[1], square))
    far = np.clip(magnitude, _MIDDLE_START, _SATURATION)
    # exp(-far**2) from a rounded square would lose digits: the square is split in a short head,
    # exact in floating point, and the rest.
    head = np.trunc(far * 16.0) / 16.0
    tail = (far - head) * (far + head)
    complement = np.exp(-head * head) * np.exp(-tail)
    complement *= _polynomial(_MIDDLE[0], far) / _polynomial(_MIDDLE[1], far)
    return np.where(small, near, np.copysign(1.0 - complement, x))


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    result = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result *= x
        result += coefficient
    return result
