"""Arrays that know their shape and dtype and hold no data."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NoReturn, SupportsIndex

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from shardwise.backend import special
from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import DataDependentShapeError, DTypeError, ShapeError
from shardwise.backend.shape_function import DATA_DEPENDENT, RULES
from shardwise.backend.shape_index import indexed_shape
from shardwise.backend.shape_ufunc import UFUNC_METHODS
from shardwise.backend.stand_in import broadcast_shape, data_dependent, stand_in

__all__ = ["ShapeArray"]


class ShapeArray(NDArrayOperatorsMixin):
    """An array without data: formulas run on it, and give the shapes and dtypes of their results.

    No operation takes memory or time that grows with the size. Dtypes come out as NumPy's, with Python
    scalars weak. What only data could tell raises :class:`DataDependentShapeError`.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : dtype, default float32

    Examples
    --------
    >>> import numpy as np
    >>> x, w = ShapeArray((8, 1024), np.float32), ShapeArray((1024, 10**9), np.float32)
    >>> np.sum(np.exp(x @ w) * 2.0, axis=0)
    ShapeArray((1000000000,), float32)
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike = np.float32) -> None:
        lengths = (shape,) if isinstance(shape, SupportsIndex) else tuple(shape)
        self.shape: Shape = tuple(operator.index(length) for length in lengths)
        self.dtype: np.dtype[np.generic] = np.dtype(dtype)
        if any(length < 0 for length in self.shape):
            raise ShapeError(f"ShapeArray: wanted lengths of 0 or more, got the shape {self.shape}.")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that the data would take."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> ShapeArray:
        return ShapeArray(self.shape[::-1], self.dtype)

    @property
    def real(self) -> ShapeArray:
        return ShapeArray(self.shape, np.empty(0, self.dtype).real.dtype)

    @property
    def imag(self) -> ShapeArray:
        return ShapeArray(self.shape, np.empty(0, self.dtype).imag.dtype)

    def __repr__(self) -> str:
        return f"ShapeArray({self.shape}, {self.dtype})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array with no dims")
        return self.shape[0]

    def __iter__(self) -> Iterator[ShapeArray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: object) -> ShapeArray:
        return ShapeArray(indexed_shape(self.shape, index), self.dtype)

    def __setitem__(self, index: object, value: object) -> None:
        """Check that `value` fits what `index` selects; there is nothing to write to."""
        try:
            target = indexed_shape(self.shape, index)
        except DataDependentShapeError:
            return  # of a mask: whether as many values are given, only its data could tell
        shape = np.shape(np.asarray(_unwrap(value)))
        extra = max(0, len(shape) - len(target))  # leading dims of one element are let go, as NumPy does
        pairs = zip(reversed(shape[extra:]), reversed(target), strict=False)
        if any(n != 1 for n in shape[:extra]) or any(n not in (1, m) for n, m in pairs):
            raise ShapeError(f"cannot write an array of shape {shape} into one of shape {target}.")

    def astype(self, dtype: DTypeLike, copy: bool = True) -> ShapeArray:
        return ShapeArray(self.shape, dtype)

    def view(self, dtype: DTypeLike | None = None) -> ShapeArray:
        """The same memory as a dtype of the same size (others depend on how the memory is laid out)."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        if kind.itemsize != self.dtype.itemsize:
            raise DTypeError(f"view: wanted a dtype of {self.itemsize} bytes like {self.dtype}, got {kind}.")
        return ShapeArray(self.shape, kind)

    def copy(self) -> ShapeArray:
        return ShapeArray(self.shape, self.dtype)

    def reshape(self, *shape: int | Sequence[int]) -> ShapeArray:
        lengths = [length for part in shape for length in ([part] if isinstance(part, int) else part)]
        return ShapeArray(np.reshape(stand_in(self.shape, bool), lengths).shape, self.dtype)

    def item(self, *args: int) -> NoReturn:
        raise data_dependent(f"{self!r}.item()")

    def tolist(self) -> NoReturn:
        raise data_dependent(f"{self!r}.tolist()")

    def nonzero(self) -> NoReturn:
        raise data_dependent(f"{self!r}.nonzero()")

    def __bool__(self) -> bool:
        raise data_dependent(f"bool({self!r})")

    def __int__(self) -> int:
        raise data_dependent(f"int({self!r})")

    def __float__(self) -> float:
        raise data_dependent(f"float({self!r})")

    def __complex__(self) -> complex:
        raise data_dependent(f"complex({self!r})")

    def __index__(self) -> int:
        raise data_dependent(f"operator.index({self!r})")

    def __contains__(self, item: object) -> bool:
        raise data_dependent(f"{item!r} in {self!r}")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        raise data_dependent(f"numpy.asarray({self!r})")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        if any(hasattr(type(x), "__array_ufunc__") and not _is_known(x) for x in inputs):
            return NotImplemented  # a Tensor, say, which knows better
        # NumPy would ask the elements, and there are none.
        if ufunc not in (np.equal, np.not_equal) and any(x is None for x in inputs):
            raise TypeError(f"unsupported operand type(s) for {ufunc.__name__}: 'NoneType'")
        rule = UFUNC_METHODS.get(method)
        if rule is None or (ufunc.signature is not None and ufunc is not np.matmul):
            return NotImplemented
        out = options.pop("out", ())
        results = rule(ufunc, [_unwrap(x) for x in inputs], options)
        targets = out if isinstance(out, tuple) and out else (None,) * len(results)
        written = [_written(ufunc, *pair) for pair in zip(targets, results, strict=True)]
        return written[0] if len(written) == 1 else tuple(written)

    def __array_function__(
        self,
        function: Callable[..., object],
        types: Collection[type],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> object:
        if not all(issubclass(kind, ShapeArray | np.ndarray | np.generic) for kind in types):
            return NotImplemented
        if function in DATA_DEPENDENT:
            raise data_dependent(f"numpy.{function.__name__}")
        rule = RULES.get(function)
        if rule is None:
            return NotImplemented  # and NumPy says that there is no implementation
        return _wrap(rule(*(_unwrap(x) for x in args), **{name: _unwrap(x) for name, x in kwargs.items()}))

    def __array_special__(
        self, function: Callable[..., Array], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Answer for a function of :mod:`shardwise.backend.special`."""
        arguments = [_unwrap(x) for x in args]
        rule = _SPECIAL_RULES.get(function)
        return NotImplemented if rule is None else rule(*arguments, **kwargs)


def _is_known(value: object) -> bool:
    return isinstance(value, ShapeArray | np.ndarray | np.generic)


def _unwrap(value: object) -> object:
    """`value` with stand-ins for the ShapeArrays in it."""
    if isinstance(value, ShapeArray):
        return stand_in(value.shape, value.dtype)
    if isinstance(value, list):
        return [_unwrap(x) for x in value]
    if type(value) is tuple:
        return tuple(_unwrap(x) for x in value)
    return value


def _wrap(value: object) -> object:
    """`value` with ShapeArrays for the stand-ins in it."""
    if isinstance(value, np.ndarray):
        return ShapeArray(value.shape, value.dtype)
    if isinstance(value, list):
        return [_wrap(x) for x in value]
    return tuple(_wrap(x) for x in value) if type(value) is tuple else value


def _written(ufunc: np.ufunc, target: object, result: Array) -> object:
    """What a ufunc gives for `result`: a new array, or `target` (from ``out=``) if it fits."""
    if target is None:
        return ShapeArray(result.shape, result.dtype)
    if not isinstance(target, ShapeArray):
        raise data_dependent(f"numpy.{ufunc.__name__} of a ShapeArray into an array with data")
    if broadcast_shape(result, _unwrap(target)) != target.shape:
        raise ShapeError(
            f"numpy.{ufunc.__name__}: the result has shape {result.shape}, and out has {target.shape}."
        )
    if not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise DTypeError(
            f"numpy.{ufunc.__name__}: the result is {result.dtype}, which does not go into out of "
            f"{target.dtype}. Convert it with astype first."
        )
    return target


def _pointwise(*args: Array) -> ShapeArray:
    return ShapeArray(args[-1].shape, special.erf(np.empty(0, args[-1].dtype)).dtype)


def _scatter_add(base_shape: Shape, index: object, updates: Array) -> ShapeArray:
    result = ShapeArray(base_shape, updates.dtype)
    result[index] = updates  # for its errors
    return result


def _combine_at(operation: np.ufunc, base: Array, index: object, updates: Array) -> ShapeArray:
    result = ShapeArray(base.shape, base.dtype)
    result[index] = updates  # for its errors
    return result


def _accumulate(operation: np.ufunc, x: Array, dim: int) -> ShapeArray:
    probe = np.zeros((1,) * x.ndim, x.dtype)
    return ShapeArray(x.shape, operation.accumulate(probe, axis=dim).dtype)


def _top_indices(x: Array, k: int, dim: int, largest: bool) -> ShapeArray:
    return ShapeArray((*x.shape[:dim], k, *x.shape[dim + 1 :]), np.intp)


_SPECIAL_RULES: Mapping[Callable[..., Array], Callable[..., ShapeArray]] = {
    **dict.fromkeys(special.POINTWISE, _pointwise),
    special.scatter_add: _scatter_add,
    special.accumulate: _accumulate,
    special.combine_at: _combine_at,
    special.top_indices: _top_indices,
}
