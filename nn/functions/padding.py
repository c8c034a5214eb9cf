"""Padding at the ends of dims, as PyTorch writes it: pairs from the last dim on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_tensors
from shardwise.tensor import Tensor
from shardwise.tensor.ops import padding as op

__all__ = ["PadMode", "pad"]

PadMode: TypeAlias = Literal["constant", "reflect", "replicate", "circular"]

_NUMPY_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input: Tensor, pad: Sequence[int], mode: PadMode = "constant", value: float | None = None) -> Tensor:
    """Return `input` with elements added before and after its last dims.

    Parameters
    ----------
    input : Tensor, any shape
    pad : sequence of int
        ``(before, after)`` of the last dim, then of the one in front of it, and so on. Negative numbers
        cut off.
    mode : {"constant", "reflect", "replicate", "circular"}
        Where the new elements come from: one number; the elements inside, mirrored at the last; the
        last element; the other end.
    value : float, optional
        The number for mode ``"constant"``; 0 if not given.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        There are more pairs than dims, more is cut off than there is, or an edge is to be continued
        further than its mode can.

    Examples
    --------
    >>> import shardwise as sw
    >>> pad(sw.tensor([1.0, 2.0, 3.0]), (2, 1), "reflect").tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
    """
    check_tensors("pad", input=input)
    if mode not in _NUMPY_MODES:
        raise ArgumentError(f"pad: the mode must be one of {', '.join(_NUMPY_MODES)}; got {mode!r}")
    if value is not None and mode != "constant" and value != 0:
        raise ArgumentError(f"pad: mode {mode!r} takes no value, got {value}; leave it out")
    numbers = tuple(int(n) for n in pad)
    if len(numbers) % 2 or len(numbers) > 2 * input.ndim:
        raise ShapeError(
            f"pad: wanted a pair of numbers for each of at most {input.ndim} dims of shape {input.shape}, "
            f"got {numbers}"
        )
    pairs = [(0, 0)] * (input.ndim - len(numbers) // 2)
    pairs += [(numbers[i], numbers[i + 1]) for i in range(len(numbers) - 2, -1, -2)]
    grown = tuple((max(0, before), max(0, after)) for before, after in pairs)
    cut = tuple((max(0, -before), max(0, -after)) for before, after in pairs)
    wraps = mode == "circular"
    if wraps:  # what is cut off does not come back at the other end, in mirrors it does
        input = _cropped(input, cut)
    for dim, (widths, n) in enumerate(zip(grown, input.shape, strict=True)):
        most = {
            "constant": max(widths),
            "reflect": n - 1,
            "replicate": max(widths) * min(n, 1),
            "circular": n,
        }
        if max(widths) > most[mode]:
            raise ShapeError(
                f"pad: dim {dim} of shape {input.shape} cannot be continued by {widths} in mode {mode!r}; "
                f"wanted at most {max(0, most[mode])}"
            )
    filler = 0 if value is None else value
    out = op.Pad.apply(input, pads=grown, mode=_NUMPY_MODES[mode], value=filler)
    return out if wraps else _cropped(out, cut)


def _cropped(x: Tensor, cut: tuple[tuple[int, int], ...]) -> Tensor:
    """Return `x` without so many elements at the ends of each dim."""
    if not any(map(any, cut)):
        return x
    for dim, ((before, after), n) in enumerate(zip(cut, x.shape, strict=True)):
        if before + after > n:
            raise ShapeError(f"pad: {(-before, -after)} cuts more off than dim {dim} of shape {x.shape} has")
    return x[tuple([slice(before, n - after) for (before, after), n in zip(cut, x.shape, strict=True)])]
