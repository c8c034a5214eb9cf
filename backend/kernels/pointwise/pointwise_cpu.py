"""Loops over arrays, made of functions of numbers: one pass reads every operand once and writes the result.

A function of numbers is written as for one element, and says what it does to it::

    @pointwise
    def leaky_relu_forward(x: float, slope: float) -> float:
        return x if x > 0.0 else x * slope

Called with arrays it runs over all their elements. Every operand may be an array or a number; an array that
repeats one element everywhere (the gradient of a sum) is taken as a number. For each combination that occurs
one loop is compiled, when it first occurs. Constants that are calculated with take the precision of the
operands by ``real = type(x)``, since a Python float is a double for numba; two choices of one `if` have to be
worked out before it, as plain values, where the loop shall vectorise.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numba
import numpy as np
from numba.extending import overload

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import DTypeError
from shardwise.backend.kernels.jit import POINTWISE, Fused, NumbaType, boolean, device, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.memory.turn_cpu import apart, piece, pieces, places_for

__all__ = ["Pointwise", "pointwise"]

Number: TypeAlias = float
_NUMBER, _FLOATS, _MASK = "n", "f", "m"  # what an operand is: also the letters of a loop's name


def pointwise(function: Callable[..., Number]) -> Pointwise:
    """Make of a function of numbers one of arrays and numbers, see above."""
    return Pointwise(function)


class Pointwise:
    """A function of numbers that runs over arrays.

    Parameters
    ----------
    function : callable
        Of one to six numbers.
    """

    def __init__(self, function: Callable[..., Number]) -> None:
        functools.update_wrapper(self, function)
        self._name, self._module = function.__name__, function.__module__
        # What uses functions of other modules, as exp, waits for arithmetic and not for memory.
        self._light = function.__globals__.keys().isdisjoint(function.__code__.co_names)
        self._function = device()(function)
        self._loops: dict[tuple[str, np.dtype[np.generic]], Callable[..., object]] = {}

    def __call__(self, *operands: Array | Number, **named: Array | Number) -> Array:
        """Return the results as a new array, of the shape to which the operands broadcast.

        Parameters
        ----------
        *operands : arrays of one floating dtype, masks, or numbers
            At least one floating array. Where none is C-contiguous the result has the layout of the first.
        """
        if named:
            operands = inspect.signature(self).bind(*operands, **named).args
        first = operands[0]
        if not isinstance(first, np.ndarray) or first.dtype.kind != "f":
            return self._run_over_any(operands)
        shape, dtype = first.shape, first.dtype
        kinds = ""
        flat: list[Array | Number] = []
        for x in operands:  # most calls are with contiguous arrays of one shape
            if isinstance(x, np.ndarray):
                flags = x.flags
                if x.shape != shape or not flags.c_contiguous or not flags.aligned:
                    return self._run_over_any(operands)
                if x.dtype is dtype:
                    kinds += _FLOATS
                elif x.dtype == np.bool_:
                    kinds += _MASK
                else:
                    return self._run_over_any(operands)
                flat.append(x.reshape(-1))
            else:
                kinds += _NUMBER
                flat.append(x)
        out = np.empty(shape, dtype)
        self.loop(kinds, dtype)(out.reshape(-1), *flat)
        return out

    def _run_over_any(self, operands: Sequence[Array | Number]) -> Array:
        """Run over operands that broadcast, or lie otherwise: walk through memory, copy what does not fit."""
        shape, dtype = _shape_and_dtype(operands)
        out = _empty_like_first([x for x in operands if isinstance(x, np.ndarray)], shape, dtype)
        kinds = ""
        flat: list[Array | Number] = []
        for x in operands:
            if not isinstance(x, np.ndarray):
                kinds += _NUMBER
                flat.append(x)
            elif x.size and (not any(x.strides) or (x.size == 1 and x.shape != shape)):  # one, everywhere
                kinds += _NUMBER
                flat.append(x.flat[0].item())
            else:
                kinds += _FLOATS if x.dtype == dtype else _MASK
                x = x if kinds[-1] == _FLOATS else _as_mask(x)
                flat.append(_in_order_of(np.broadcast_to(x, shape), out))
        self.loop(kinds, dtype)(out.ravel(order="K"), *flat)
        return out

    def loop(self, kinds: str, dtype: np.dtype[np.generic]) -> Callable[..., object]:
        """Return the compiled loop, ``loop(out, *operands)`` over flat arrays of one size.

        Parameters
        ----------
        kinds : str
            A letter per operand: f for an array of `dtype`, m for a mask, n for a number.
        dtype : dtype
            float32 or float64.
        """
        loop = self._loops.get((kinds, dtype))
        if loop is None:
            loop = self._loops[kinds, dtype] = self._made(kinds).compile(dtype)
        return loop

    def _made(self, kinds: str) -> Fused:
        arrays = 1 + len(kinds) - kinds.count(_NUMBER)
        loop = _LOOPS[len(kinds)](self._function, places_for(arrays) if self._light else 1)
        # By this name it is kept on disk, where all loops would have that of the function that makes them.
        loop.__module__, loop.__qualname__ = self._module, f"{self._name}.{kinds}"

        def signature(real: NumbaType) -> Sequence[NumbaType]:
            types = {_NUMBER: real, _FLOATS: read(real, 1), _MASK: read(boolean, 1)}
            return (write(real, 1), *(types[kind] for kind in kinds))

        return Fused(loop, signature, exact=False)


def _shape_and_dtype(operands: Sequence[Array | Number]) -> tuple[Shape, np.dtype[np.generic]]:
    """The shape of the result, and the dtype of the floating operands."""
    shape: Shape | None = None
    dtype = None
    same = True
    for x in operands:
        if isinstance(x, np.ndarray):
            if dtype is None and x.dtype.kind == "f":
                dtype = x.dtype
            if shape is None:
                shape = x.shape
            elif x.shape != shape:
                same = False
    if shape is None or dtype is None:
        raise DTypeError("a fused pointwise function needs a floating array among its operands")
    if not same:
        shape = np.broadcast_shapes(*(x.shape for x in operands if isinstance(x, np.ndarray)))
    return shape, dtype


def _empty_like_first(arrays: Sequence[Array], shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """A new array in C order; in that of the first array, if none is in C order and the first has no gaps."""
    if not any(x.flags.c_contiguous for x in arrays):
        first = next((x for x in arrays if x.shape == shape and x.dtype == dtype), None)
        if first is not None:
            out = np.empty_like(first)
            if out.strides == first.strides:
                return out
    return np.empty(shape, dtype)


def _as_mask(x: Array) -> Array:
    """Where `x` is not 0."""
    return x if x.dtype == np.bool_ else x != 0


def _in_order_of(x: Array, out: Array) -> Array:
    """The elements of `x` as one flat array, in the order in which those of `out` lie in memory."""
    if not out.flags.c_contiguous:
        order = sorted(range(out.ndim), key=lambda dim: -out.strides[dim])
        x = x.transpose(order)
    return contiguous(x).reshape(-1)


def at(x: Array | Number, i: int) -> Number:
    """The element of an array; a number itself."""
    return x[i] if isinstance(x, np.ndarray) else x


def _at_for(x: NumbaType, i: NumbaType) -> Callable[..., object]:
    if isinstance(x, numba.types.Array):
        return lambda x, i: x[i]
    return lambda x, i: x


overload(at, jit_options=POINTWISE, strict=False)(_at_for)


def part(x: Array | Number, start: int, size: int) -> Array | Number:
    """So many elements of a flat array; a number itself."""
    return x[start : start + size] if isinstance(x, np.ndarray) else x


def _part_for(x: NumbaType, start: NumbaType, size: NumbaType) -> Callable[..., object]:
    if isinstance(x, numba.types.Array):
        return lambda x, start, size: x[start : start + size]
    return lambda x, start, size: x


overload(part, jit_options=POINTWISE, strict=False)(_part_for)

# One loop for each count of operands: written out, because numba's tuples of arrays and numbers cannot be
# walked through in compiled code. `places` of large arrays take turns, see ``turn_cpu.py``.

Scalar: TypeAlias = Callable[..., Number]
Loop: TypeAlias = Callable[..., None]


def _of_one(f: Scalar, places: int) -> Loop:
    def loop(out: Array, a: Array) -> None:
        far = apart(out.size, out.itemsize, places)
        for number in range(pieces(far, out.itemsize, places)):
            start, size = piece(number, out.size, far, out.itemsize, places)
            target = out[start : start + size]
            part_a = part(a, start, size)
            for i in range(size):
                target[i] = f(at(part_a, i))

    return loop


def _of_two(f: Scalar, places: int) -> Loop:
    def loop(out: Array, a: Array, b: Array) -> None:
        far = apart(out.size, out.itemsize, places)
        for number in range(pieces(far, out.itemsize, places)):
            start, size = piece(number, out.size, far, out.itemsize, places)
            target = out[start : start + size]
            part_a, part_b = part(a, start, size), part(b, start, size)
            for i in range(size):
                target[i] = f(at(part_a, i), at(part_b, i))

    return loop


def _of_three(f: Scalar, places: int) -> Loop:
    def loop(out: Array, a: Array, b: Array, c: Array) -> None:
        far = apart(out.size, out.itemsize, places)
        for number in range(pieces(far, out.itemsize, places)):
            start, size = piece(number, out.size, far, out.itemsize, places)
            target = out[start : start + size]
            part_a, part_b, part_c = part(a, start, size), part(b, start, size), part(c, start, size)
            for i in range(size):
                target[i] = f(at(part_a, i), at(part_b, i), at(part_c, i))

    return loop


def _of_four(f: Scalar, places: int) -> Loop:
    def loop(out: Array, a: Array, b: Array, c: Array, d: Array) -> None:
        far = apart(out.size, out.itemsize, places)
        for number in range(pieces(far, out.itemsize, places)):
            start, size = piece(number, out.size, far, out.itemsize, places)
            target = out[start : start + size]
            part_a, part_b, part_c, part_d = (
                part(a, start, size),
                part(b, start, size),
                part(c, start, size),
                part(d, start, size),
            )
            for i in range(size):
                target[i] = f(at(part_a, i), at(part_b, i), at(part_c, i), at(part_d, i))

    return loop


def _of_five(f: Scalar, places: int) -> Loop:
    def loop(out: Array, a: Array, b: Array, c: Array, d: Array, e: Array) -> None:
        far = apart(out.size, out.itemsize, places)
        for number in range(pieces(far, out.itemsize, places)):
            start, size = piece(number, out.size, far, out.itemsize, places)
            target = out[start : start + size]
            part_a, part_b, part_c, part_d, part_e = (
                part(a, start, size),
                part(b, start, size),
                part(c, start, size),
                part(d, start, size),
                part(e, start, size),
            )
            for i in range(size):
                target[i] = f(at(part_a, i), at(part_b, i), at(part_c, i), at(part_d, i), at(part_e, i))

    return loop


_LOOPS: dict[int, Callable[[Scalar, int], Loop]] = {
    1: _of_one, 2: _of_two, 3: _of_three, 4: _of_four, 5: _of_five,
}  # fmt: skip
