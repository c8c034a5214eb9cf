"""The operators and methods of a tensor, each a call of one `Function`.

`Tensor` inherits them. Dims are given as in PyTorch (``dim``, ``keepdim``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.errors import ShapeError
from shardwise.tensor.ops import activation, arithmetic, comparison, elementary, index, matmul, reduce, view

__all__ = ["Operators"]

Operand = Any  # a tensor, an array or a Python scalar


def _ints(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Accept ``f(2, 3)`` and ``f((2, 3))``."""
    if len(values) == 1 and not isinstance(values[0], (int, np.integer)):
        values = tuple(values[0])
    return tuple(int(v) for v in values)


class Operators:
    """What can be done with a tensor, apart from autograd."""

    data: Array
    __hash__ = object.__hash__

    # ---- arithmetic

    def __add__(self, other: Operand) -> Self:
        return arithmetic.Add.apply(self, other)

    def __radd__(self, other: Operand) -> Self:
        return arithmetic.Add.apply(self, other)

    def __sub__(self, other: Operand) -> Self:
        return arithmetic.Sub.apply(self, other)

    def __rsub__(self, other: Operand) -> Self:
        result: Self = arithmetic.Sub.apply(other, self)
        return result

    def __mul__(self, other: Operand) -> Self:
        return arithmetic.Mul.apply(self, other)

    def __rmul__(self, other: Operand) -> Self:
        return arithmetic.Mul.apply(self, other)

    def __truediv__(self, other: Operand) -> Self:
        return arithmetic.Div.apply(self, other)

    def __rtruediv__(self, other: Operand) -> Self:
        result: Self = arithmetic.Div.apply(other, self)
        return result

    def __floordiv__(self, other: Operand) -> Self:
        return arithmetic.FloorDiv.apply(self, other)

    def __mod__(self, other: Operand) -> Self:
        return arithmetic.Remainder.apply(self, other)

    def __pow__(self, other: Operand) -> Self:
        return arithmetic.Pow.apply(self, other)

    def __rpow__(self, other: Operand) -> Self:
        result: Self = arithmetic.Pow.apply(other, self)
        return result

    def __matmul__(self, other: Operand) -> Self:
        return matmul.MatMul.apply(self, other)

    def __rmatmul__(self, other: Operand) -> Self:
        result: Self = matmul.MatMul.apply(other, self)
        return result

    def __neg__(self) -> Self:
        return arithmetic.Neg.apply(self)

    def __abs__(self) -> Self:
        return elementary.Abs.apply(self)

    add, sub, mul, div, pow = __add__, __sub__, __mul__, __truediv__, __pow__
    matmul, neg, abs, remainder = __matmul__, __neg__, __abs__, __mod__

    # ---- comparisons; == compares elements, identity hashes

    def __eq__(self, other: Operand) -> Self:  # type: ignore[override]
        return comparison.Equal.apply(self, other)

    def __ne__(self, other: Operand) -> Self:  # type: ignore[override]
        return comparison.NotEqual.apply(self, other)

    def __lt__(self, other: Operand) -> Self:
        return comparison.Less.apply(self, other)

    def __le__(self, other: Operand) -> Self:
        return comparison.LessEqual.apply(self, other)

    def __gt__(self, other: Operand) -> Self:
        return comparison.Greater.apply(self, other)

    def __ge__(self, other: Operand) -> Self:
        return comparison.GreaterEqual.apply(self, other)

    def __invert__(self) -> Self:
        return comparison.LogicalNot.apply(self)

    def __and__(self, other: Operand) -> Self:
        return comparison.LogicalAnd.apply(self, other)

    def __or__(self, other: Operand) -> Self:
        return comparison.LogicalOr.apply(self, other)

    eq, ne, lt, le, gt, ge = __eq__, __ne__, __lt__, __le__, __gt__, __ge__

    # ---- elementwise mathematics

    def exp(self) -> Self:
        """Return e to the power of each element."""
        return elementary.Exp.apply(self)

    def log(self) -> Self:
        """Return the natural logarithm of each element."""
        return elementary.Log.apply(self)

    def sqrt(self) -> Self:
        """Return the square root of each element."""
        return elementary.Sqrt.apply(self)

    def sin(self) -> Self:
        """Return the sine of each element, in radians."""
        return elementary.Sin.apply(self)

    def cos(self) -> Self:
        """Return the cosine of each element, in radians."""
        return elementary.Cos.apply(self)

    def sinh(self) -> Self:
        """Return the hyperbolic sine of each element."""
        return elementary.Sinh.apply(self)

    def cosh(self) -> Self:
        """Return the hyperbolic cosine of each element."""
        return elementary.Cosh.apply(self)

    def tanh(self) -> Self:
        """Return the hyperbolic tangent of each element."""
        return elementary.Tanh.apply(self)

    def sigmoid(self) -> Self:
        """Return ``1 / (1 + exp(-x))`` of each element."""
        return elementary.Sigmoid.apply(self)

    def erf(self) -> Self:
        """Return the error function of each element."""
        return elementary.Erf.apply(self)

    def relu(self) -> Self:
        """Return the positive part of each element."""
        return elementary.Relu.apply(self)

    def sign(self) -> Self:
        """Return -1, 0 or 1 by the sign of each element."""
        return elementary.Sign.apply(self)

    def square(self) -> Self:
        """Return each element times itself."""
        return arithmetic.Mul.apply(self, self)

    def isnan(self) -> Self:
        """Return where elements are NaN."""
        return comparison.IsNaN.apply(self)

    def isfinite(self) -> Self:
        """Return where elements are neither NaN nor infinite."""
        return comparison.IsFinite.apply(self)

    def maximum(self, other: Operand) -> Self:
        """Return the larger of two, element by element; ties share the gradient."""
        return arithmetic.Maximum.apply(self, other)

    def minimum(self, other: Operand) -> Self:
        """Return the smaller of two, element by element; ties share the gradient."""
        return arithmetic.Minimum.apply(self, other)

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """Return values kept between two numbers, either of which may be None."""
        return arithmetic.Clip.apply(self, low=min, high=max)

    clamp = clip

    def masked_fill(self, mask: Operand, value: Operand) -> Self:
        """Return a copy with `value` where `mask` is true."""
        result: Self = arithmetic.Where.apply(mask, value, self)
        return result

    def softmax(self, dim: int = -1) -> Self:
        """Return exponentials that sum to one along `dim`."""
        return self._along(activation.Softmax, dim)

    def log_softmax(self, dim: int = -1) -> Self:
        """Return the logarithm of `softmax`, without its underflow."""
        return self._along(activation.LogSoftmax, dim)

    def _along(self, function: Any, dim: int) -> Self:
        last = self.data.ndim - 1
        if self.data.ndim == 0 or dim in (-1, last):
            result: Self = function.apply(self)
            return result
        moved: Self = function.apply(self.transpose(dim, last))
        return moved.transpose(dim, last)

    # ---- dtypes

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the values in another dtype; self, if it has that dtype already."""
        dtype = np.dtype(dtype)
        return self if self.data.dtype == dtype else arithmetic.Cast.apply(self, dtype=dtype)

    def float(self) -> Self:
        """Return the values as float32."""
        return self.astype(np.float32)

    def double(self) -> Self:
        """Return the values as float64."""
        return self.astype(np.float64)

    def half(self) -> Self:
        """Return the values as float16."""
        return self.astype(np.float16)

    def long(self) -> Self:
        """Return the values as int64."""
        return self.astype(np.int64)

    def clone(self) -> Self:
        """Return a copy; gradients pass through."""
        return arithmetic.Clone.apply(self)

    def contiguous(self) -> Self:
        """Return a C-contiguous tensor: self, or a copy."""
        return self if self.data.flags.c_contiguous else self.clone()

    # ---- reductions

    def sum(self, dim: reduce.Dims = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the sum over `dim` (an int, a tuple, or all dims)."""
        return reduce.Sum.apply(self, dim=dim, keepdim=keepdim, dtype=dtype)

    def mean(self, dim: reduce.Dims = None, keepdim: bool = False) -> Self:
        """Return the mean over `dim` (an int, a tuple, or all dims)."""
        return reduce.Mean.apply(self, dim=dim, keepdim=keepdim)

    def var(self, dim: reduce.Dims = None, correction: int = 1, keepdim: bool = False) -> Self:
        """Return the variance over `dim`, divided by the count less `correction`."""
        centred = self - self.mean(dim, keepdim=True)
        freedom = reduce.reduced_count(self.data.shape, dim) - correction
        return (centred * centred).sum(dim, keepdim=keepdim) * (1.0 / freedom if freedom > 0 else np.nan)

    def amax(self, dim: reduce.Dims = None, keepdim: bool = False) -> Self:
        """Return the largest value over `dim`; ties share the gradient evenly."""
        return reduce.Amax.apply(self, dim=dim, keepdim=keepdim)

    def amin(self, dim: reduce.Dims = None, keepdim: bool = False) -> Self:
        """Return the smallest value over `dim`; ties share the gradient evenly."""
        return reduce.Amin.apply(self, dim=dim, keepdim=keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the int64 index of the first largest value along `dim`."""
        return reduce.Argmax.apply(self, dim=dim, keepdim=keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the int64 index of the first smallest value along `dim`."""
        return reduce.Argmin.apply(self, dim=dim, keepdim=keepdim)

    # ---- dimensions

    def reshape(self, *shape: Any) -> Self:
        """Return the elements in another shape; one size may be -1."""
        return view.Reshape.apply(self, shape=self._full_shape(_ints(shape)))

    view = reshape

    def _full_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        size, known = self.data.size, 1
        for n in shape:
            known *= n if n >= 0 else 1
        free = shape.count(-1)
        if free == 1 and known and size % known == 0:
            return tuple(size // known if n == -1 else n for n in shape)
        if free or known != size:
            raise ShapeError(
                f"cannot reshape {self.data.shape} ({size} elements) to {shape}; "
                "the sizes must multiply to the same number, with at most one -1"
            )
        return shape

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Return the dims from `start_dim` to `end_dim` merged into one."""
        shape = self.data.shape or (1,)
        start, end = start_dim % len(shape), end_dim % len(shape)
        return self.reshape(*shape[:start], -1, *shape[end + 1 :])

    def permute(self, *dims: Any) -> Self:
        """Return the dims in another order."""
        return view.Permute.apply(self, dims=_ints(dims))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Return two dims swapped."""
        order = list(range(self.data.ndim))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        return view.Permute.apply(self, dims=tuple(order))

    swapaxes = transpose

    @property
    def T(self) -> Self:
        """The dims in reverse order."""
        return view.Permute.apply(self, dims=tuple(range(self.data.ndim))[::-1])

    @property
    def mT(self) -> Self:
        """The last two dims swapped."""
        return self.transpose(-1, -2)

    def squeeze(self, dim: int | None = None) -> Self:
        """Return without dims of size one: all of them, or `dim` if it is one."""
        shape = self.data.shape
        gone = range(len(shape)) if dim is None else (dim % max(len(shape), 1),)
        return self.reshape([n for i, n in enumerate(shape) if n != 1 or i not in gone])

    def unsqueeze(self, dim: int) -> Self:
        """Return with a dim of size one put in at `dim`."""
        shape = list(self.data.shape)
        shape.insert(dim % (len(shape) + 1), 1)
        return self.reshape(shape)

    def expand(self, *shape: Any) -> Self:
        """Return dims of size one repeated, without copying; -1 keeps a size."""
        wanted = _ints(shape)
        have = (1,) * (len(wanted) - self.data.ndim) + self.data.shape
        return view.Expand.apply(
            self, shape=tuple(h if n == -1 else n for n, h in zip(wanted, have, strict=True))
        )

    def split(self, size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Return pieces of `size` along `dim` (the last may be smaller), or of the sizes given."""
        total = self.data.shape[dim]
        sizes = [min(size, total - i) for i in range(0, total, size)] if isinstance(size, int) else list(size)
        if sum(sizes) != total:
            raise ShapeError(f"split sizes {sizes} add up to {sum(sizes)}, but dim {dim} has {total}")
        pieces: Any = view.Split.apply(self, sizes=tuple(sizes), dim=dim)
        return tuple(pieces)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Return at most `chunks` pieces of equal size along `dim`; the last may be smaller."""
        return self.split(max(1, -(-self.data.shape[dim] // chunks)), dim)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the slices along `dim`, without it."""
        pieces: Any = view.Unbind.apply(self, dim=dim)
        return tuple(pieces)

    def tril(self, diagonal: int = 0) -> Self:
        """Return the lower triangle of the last two dims."""
        return view.Tril.apply(self, k=diagonal)

    def triu(self, diagonal: int = 0) -> Self:
        """Return the upper triangle of the last two dims."""
        return view.Triu.apply(self, k=diagonal)

    def __getitem__(self, key: Any) -> Self:
        plain = index.plain_index(key)
        if index.is_basic(plain):
            return index.Slice.apply(self, index=plain)
        return index.Index.apply(self, index=plain)

    def take_along_dim(self, indices: Operand, dim: int) -> Self:
        """Return, per position of `indices`, the value that it names along `dim`."""
        return index.TakeAlong.apply(self, indices, dim=dim)
