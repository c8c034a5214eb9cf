"""Make tensors of random numbers. Which bits come next is said in `shardwise.tensor.random`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend import random as bits
from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.backend.kind import as_dtype
from shardwise.backend.position import placed
from shardwise.backend.select import backend_of, get_backend
from shardwise.tensor.creation import as_tensor
from shardwise.tensor.fresh import Size, moved, read_shape, unset
from shardwise.tensor.part import in_parts, part_of
from shardwise.tensor.random import Draw, next_draw
from shardwise.tensor.signature import Part
from shardwise.tensor.tensor import Tensor

__all__ = [
    "bernoulli", "integers_of", "multinomial", "normal", "normal_of", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "uniform_of",
]  # fmt: skip


def rand(
    *sizes: Size,
    size: Size | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return uniform random numbers in [0, 1); complex ones in the unit square.

    Parameters
    ----------
    *sizes, size : int or sequence of int
        The shape: ``rand(2, 3)``, ``rand((2, 3))`` or ``rand(size=(2, 3))``.
    dtype : dtype, optional
        float32 (if not given), float16, bfloat16, float64, complex64 or complex128.
    """
    shape = read_shape(sizes if size is None else (*sizes, size))
    return Tensor(uniform_of(part_of(shape), dtype or np.float32, device, next_draw()), requires_grad)


def randn(
    *sizes: Size,
    size: Size | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return normal random numbers of mean 0 and variance 1; complex ones have half of it in each part.

    Parameters are those of `rand`.
    """
    shape = read_shape(sizes if size is None else (*sizes, size))
    return Tensor(normal_of(part_of(shape), dtype or np.float32, device, next_draw()), requires_grad)


def rand_like(
    input: Tensor | Array,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return uniform random numbers in [0, 1), of the shape, dtype and device of `input`."""
    return _drawn_like(input, dtype, device, requires_grad, uniform_of)


def randn_like(
    input: Tensor | Array,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return normal random numbers of mean 0 and variance 1, of the shape, dtype and device of `input`."""
    return _drawn_like(input, dtype, device, requires_grad, normal_of)


def randint(
    low: int = 0,
    high: int | Size | None = None,
    size: Size | None = None,
    *,
    dtype: DTypeLike = np.int64,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return random integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Raises
    ------
    ArgumentError
        The range is empty, or there is no size.
    """
    if not isinstance(high, (int, np.integer)):
        low, high, size = 0, low, high if size is None else size
    if size is None:
        raise ArgumentError("randint: wanted (high, size) or (low, high, size), and got no size")
    part = part_of(read_shape((size,)))
    return Tensor(integers_of(low, high, part, dtype, device, next_draw()), requires_grad)


def randint_like(
    input: Tensor | Array,
    low: int,
    high: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return random integers in [low, high), or [0, low), of the shape, dtype and device of `input`."""
    lowest, end = (0, low) if high is None else (low, high)
    return _drawn_like(
        input,
        dtype,
        device,
        requires_grad,
        lambda part, kind, place, draw: integers_of(lowest, end, part, kind, place, draw),
    )


def randperm(
    n: int, *, dtype: DTypeLike = np.int64, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return the integers below `n` in random order; the same order on all ranks."""
    draw = next_draw()
    array = bits.permutation(n, draw.seed, draw.stream).astype(dtype, copy=False)
    return Tensor(moved(array, device), requires_grad)


def bernoulli(p: float | Tensor | Array, size: Size | None = None, device: str | None = None) -> Tensor:
    """Return trials that succeed with probability `p`.

    Parameters
    ----------
    p : float, Tensor or Array
        A number, for booleans of shape `size`; or a tensor of probabilities, for zeros and ones of its
        shape and dtype, as PyTorch's.
    size : int or sequence of int, optional
        With a number only.

    Raises
    ------
    ArgumentError
        A probability outside of [0, 1], or a number without a size.
    """
    if not isinstance(p, (int, float)):
        p = as_tensor(p)
        if size is not None:
            raise ArgumentError("bernoulli: a tensor of probabilities has its own shape; leave size away")
        if not bool(((p >= 0) & (p <= 1)).all()):
            raise ArgumentError("bernoulli: wanted probabilities from 0 to 1; clip() them first")
        draw, kind, place = next_draw(), p.dtype, p.device

        def make(part: Part, local: Array) -> Array:
            uniform = bits.uniform(part.shape, np.float64, draw.seed, draw.stream, draw.place(part))
            return moved((uniform < backend_of(local).to_host(local)).astype(kind), place)

        out: Tensor = in_parts(p, make)
        return out
    if size is None:
        raise ArgumentError("bernoulli: a probability that is a number needs a size")
    shape, draw = read_shape((size,)), next_draw()
    return Tensor(moved(bits.bernoulli(shape, p, draw.seed, draw.stream, draw.offset(shape)), device))


def normal(
    mean: float | Tensor | Array,
    std: float | Tensor | Array = 1.0,
    size: Size | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return normal random numbers, without history.

    Parameters
    ----------
    mean, std : float or Tensor
        Numbers; or tensors that broadcast, whose shape and dtype the result has.
    size : int or sequence of int, optional
        The shape, if both are numbers.

    Raises
    ------
    ArgumentError
        A negative `std`; or numbers without a size, or tensors with one.
    """
    mean, std = [each if isinstance(each, (int, float)) else as_tensor(each) for each in (mean, std)]
    given = [each for each in (mean, std) if isinstance(each, Tensor)]
    if bool(given) == (size is not None):
        raise ArgumentError("normal: give a size with numbers, and none with tensors")
    middle: Any = mean.data if isinstance(mean, Tensor) else float(mean)
    width: Any = std.data if isinstance(std, Tensor) else float(std)
    place = device or (given[0].device if given else None)
    if place != "shape" and not bool(np.all(width >= 0)):
        raise ArgumentError("normal: wanted a standard deviation of 0 or more")
    if size is None:
        shape = np.broadcast_shapes(*[each.shape for each in given])
        dtype = dtype or np.result_type(*[each.dtype for each in given])
    else:
        shape = read_shape((size,))
    standard = normal_of(part_of(shape), dtype or np.float32, place, next_draw())
    array: Any = standard * width + middle
    if isinstance(array, np.generic):  # NumPy's answer where there are no dims
        array = np.asarray(array)
    return Tensor(array.astype(standard.dtype, copy=False), requires_grad)


def multinomial(input: Tensor | Array, num_samples: int, replacement: bool = False) -> Tensor:
    """Return indices drawn with probabilities in proportion to weights.

    Parameters
    ----------
    input : Tensor, shape (n,) or (rows, n)
        Weights of 0 or more, finite, not all zero in a row; they need not sum to one.
    num_samples : int
    replacement : bool
        Whether an index may come again.

    Returns
    -------
    Tensor of int64, shape (num_samples,) or (rows, num_samples)
        In the order in which they were drawn.

    Raises
    ------
    ShapeError
        `input` has no dims, or more than two.
    ArgumentError
        Weights that are negative, not finite, or all zero; or more samples without replacement than
        there are weights above zero.
    """
    return as_tensor(input).multinomial(num_samples, replacement)


def _drawn_like(
    input: Tensor | Array,
    dtype: DTypeLike | None,
    device: str | None,
    requires_grad: bool,
    make: Callable[[Part, DTypeLike, str | None, Draw], Array],
) -> Tensor:
    """Return random numbers that lie as a tensor does."""
    x, draw = as_tensor(input), next_draw()
    kind, place = dtype or x.dtype, device or x.device
    out: Tensor = in_parts(x, lambda part, local: make(part, kind, place, draw))
    return out.requires_grad_() if requires_grad else out


def uniform_of(part: Part, dtype: DTypeLike, device: str | None, draw: Draw) -> Array:
    """Return a part of an array of uniform random numbers."""
    kind = as_dtype(dtype, "rand")
    if _without_data(device):
        return unset(part.shape, kind, device)
    if kind.kind == "c":
        return moved(_as_complex(bits.uniform, part, kind, draw), device)
    return moved(bits.uniform(part.shape, kind, draw.seed, draw.stream, draw.place(part)), device)


def normal_of(part: Part, dtype: DTypeLike, device: str | None, draw: Draw) -> Array:
    """Return a part of an array of normal random numbers."""
    kind = as_dtype(dtype, "randn")
    if _without_data(device):
        return unset(part.shape, kind, device)
    if kind.kind == "c":
        return moved(_as_complex(bits.normal, part, kind, draw) * 0.5**0.5, device)
    return moved(bits.normal(part.shape, kind, draw.seed, draw.stream, draw.place(part)), device)


def integers_of(low: int, high: int, part: Part, dtype: DTypeLike, device: str | None, draw: Draw) -> Array:
    """Return a part of an array of random integers."""
    kind = as_dtype(dtype, "randint")
    if _without_data(device):
        return unset(part.shape, kind, device)
    array = bits.integers(low, high, part.shape, draw.seed, draw.stream, draw.place(part))
    return moved(array.astype(kind, copy=False), device)


def _as_complex(make: Any, part: Part, dtype: np.dtype[Any], draw: Draw) -> Array:
    """Draw real and imaginary parts side by side."""
    pairs = Part((*part.offset, 0), (*part.shape, 2), (*part.whole, 2))
    first = draw.offset(pairs.whole) if part.whole else 0
    kind = np.empty(0, dtype).real.dtype
    parts: Array = make(pairs.shape, kind, draw.seed, draw.stream, placed(first, *pairs))
    return parts.view(dtype)[..., 0]


def _without_data(device: str | None) -> bool:
    return device is not None and get_backend(device).name == "shape"
