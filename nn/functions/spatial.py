"""What layers over space share: one number for all dims or one each, inputs with or without a batch."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor import Tensor

__all__ = ["Sizes", "batched", "per_dim", "windows_along"]

Sizes = int | Sequence[int]
"""One integer for all spatial dims, or one for each."""


def per_dim(op: str, name: str, value: Sizes, ndim: int, low: int = 1) -> tuple[int, ...]:
    """Return one integer per spatial dim.

    Parameters
    ----------
    op, name : str
        For the message.
    value : int or sequence of int
        A single one counts for all dims.
    ndim : int
    low : int
        The smallest that is allowed.

    Raises
    ------
    ArgumentError
        Not integers, too small, or not one per dim.
    """
    given = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    numbers = []
    for number in given:
        try:
            numbers.append(operator.index(number))
        except TypeError:
            numbers.append(low - 1)
    if len(numbers) not in (1, ndim) or min(numbers, default=low) < low or not numbers:
        raise ArgumentError(
            f"{op}: {name} must be an integer of at least {low}, or a tuple of {ndim}; got {value!r}"
        )
    return tuple(numbers) * ndim if len(numbers) == 1 else tuple(numbers)


def batched(op: str, input: Tensor, ndim: int) -> tuple[Tensor, bool]:
    """Return `input` with a batch dim in front, and whether it had none.

    Raises
    ------
    ShapeError
        It has neither `ndim` spatial dims with channels in front, nor these with a batch in front.
    """
    if input.ndim == ndim + 2:
        return input, False
    if input.ndim == ndim + 1:
        return input.unsqueeze(0), True
    names = ("length", "height, width", "depth, height, width")[ndim - 1]
    raise ShapeError(
        f"{op}: input must have shape (batch, channels, {names}) or (channels, {names}), got {input.shape}"
    )


def windows_along(
    op: str,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> tuple[int, ...]:
    """Return how many windows there are along each dim.

    Raises
    ------
    ArgumentError
        There is more padding than half of the kernel, so that a window could see nothing else.
    ShapeError
        A dim has no room for one window.
    """
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise ArgumentError(f"{op}: padding must be at most half of the kernel {kernel}, got {padding}")
    counts = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:  # it would start behind the input
            count -= 1
        counts.append(count)
    if min(counts) < 1 or min(size) < 1:
        raise ShapeError(
            f"{op}: windows of {kernel} with dilation {dilation} do not fit into an input of {size} with "
            f"padding {padding}"
        )
    return tuple(counts)
