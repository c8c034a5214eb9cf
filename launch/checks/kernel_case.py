"""What each kernel is tried on: small arguments by the name of the kernel.

Kernels of single elements take arrays of one shape and any numbers, so theirs follow from the formula's
parameters; the others are listed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.optimizer import Update
from shardwise.backend.kernels.table import KERNELS

__all__ = ["AnyKernel", "kernel_arguments", "update_arguments"]

AnyKernel: TypeAlias = Kernel[..., Any]
Arguments: TypeAlias = tuple[object, ...]

_BY_NAME: Mapping[str, AnyKernel] = {kernel.name: kernel for kernel in KERNELS}
_POSITIVE = ("inverse_root", "add_quotient", "binary_cross_entropy_backward")
_ROWS, _WIDTH = 33, 65  # neither a multiple of the width of a vector


def kernel_arguments(kernel: AnyKernel) -> Arguments:
    """Give arguments for a kernel, its floating arrays in float32, each time the same.

    Raises
    ------
    LookupError
        If it takes more than arrays and numbers, and has none listed here.
    """
    draw = _Draw()
    listed = _LISTED.get(kernel.name)
    return listed(draw) if listed is not None else tuple(_of_parameters(kernel, draw))


def update_arguments(update: Update) -> tuple[list[list[Array]], list[tuple[float, ...]]]:
    """Give columns and numbers for an update of an optimizer, in the range of all formulas."""
    draw = _Draw()
    columns = [
        [draw(n) if name in ("param", "grad") else draw.positive(n) for n in (_WIDTH, 3, _ROWS * _WIDTH)]
        for name in update.arrays
    ]
    numbers = tuple(draw.positive(len(update.numbers)).tolist())
    return columns, [numbers] * 3


class _Draw:
    """Makes arrays of float32, from one seed."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(17)

    def __call__(self, *shape: int) -> Array:
        """Normal numbers."""
        return np.asarray(self.rng.standard_normal(shape), np.float32)

    def positive(self, *shape: int) -> Array:
        """Numbers from 0.1 to 0.9."""
        return np.asarray(self.rng.uniform(0.1, 0.9, shape), np.float32)

    def below(self, end: int, *shape: int) -> Array:
        """Integers from 0."""
        return self.rng.integers(0, end, shape)

    def mask(self, *shape: int) -> Array:
        """About two thirds True."""
        return self.rng.random(shape) < 0.7


def _of_parameters(kernel: AnyKernel, draw: _Draw) -> Iterator[object]:
    number = 0.2
    for name, parameter in inspect.signature(kernel.plain).parameters.items():
        kind = str(parameter.annotation)
        if name == "mask":
            yield draw.mask(_ROWS, _WIDTH)
        elif kind.startswith("Array"):
            positive = kernel.name in _POSITIVE
            yield draw.positive(_ROWS, _WIDTH) if positive else draw(_ROWS, _WIDTH)
        elif kind == "float":
            number += 0.3  # bounds in rising order
            yield number
        elif kind == "Dims":
            yield (0,)
        elif kind == "int" and name == "dim":
            yield 1
        else:
            raise LookupError(f"{kernel.name} takes {name}: {kind}; list its arguments")


def _plain(name: str, *arguments: object) -> tuple[Array, ...]:
    result = _BY_NAME[name].plain(*arguments)
    return result if isinstance(result, tuple) else (result,)


# ---- rows


def _layer_norm(draw: _Draw) -> Arguments:
    return draw(_ROWS, _WIDTH), draw(_WIDTH), draw(_WIDTH), 1e-5


def _layer_norm_backward(draw: _Draw) -> Arguments:
    x, weight, bias, eps = _layer_norm(draw)
    return (draw(_ROWS, _WIDTH), x, weight, *_plain("layer_norm_forward", x, weight, bias, eps)[1:], eps)


def _rms_norm_backward(draw: _Draw) -> Arguments:
    x, weight, _, eps = _layer_norm(draw)
    return (draw(_ROWS, _WIDTH), x, weight, *_plain("rms_norm_forward", x, weight, eps)[1:], eps)


def _planes(draw: _Draw) -> Arguments:
    return draw(3, 4, 35), draw(4), draw(4)


def _batch_norm_backward(draw: _Draw) -> Arguments:
    x, weight, bias = _planes(draw)
    return (draw(3, 4, 35), x, weight, *_plain("batch_norm_forward", x, weight, bias, 1e-5)[1:], 1e-5)


def _group_norm_backward(draw: _Draw) -> Arguments:
    x, weight, bias = _planes(draw)
    return (draw(3, 4, 35), x, weight, *_plain("group_norm_forward", x, weight, bias, 2, 1e-5)[1:], 2, 1e-5)


# ---- losses


def _labels(draw: _Draw) -> Arguments:
    target = draw.below(_WIDTH, _ROWS)
    target[::5] = -100
    return draw(_ROWS, _WIDTH), target


def _cross_entropy_backward(draw: _Draw) -> Arguments:
    logits, target = _labels(draw)
    total = _plain("cross_entropy_forward", logits, target, -100)[1]
    return draw(_ROWS), logits, target, total, -100


def _weighted_cross_entropy_backward(draw: _Draw) -> Arguments:
    (logits, target), weight = _labels(draw), draw.positive(_WIDTH)
    total = _plain("weighted_cross_entropy_forward", logits, target, weight, -100, 0.1)[1]
    return logits, draw(_ROWS), target, weight, total, -100, 0.1


def _soft_cross_entropy_backward(draw: _Draw) -> Arguments:
    logits, target, weight = draw(_ROWS, _WIDTH), draw.positive(_ROWS, _WIDTH), draw.positive(_WIDTH)
    total = _plain("soft_cross_entropy_forward", logits, target, weight, 0.1)[1]
    return logits, draw(_ROWS), target, weight, total, 0.1


# ---- windows: size, kernel, stride, padding and dilation of an image, and how many windows it has

_SIZE, _KERNEL, _OUT = (7, 6), (3, 2), (7, 2)
_DIRECT = (7, 5)  # windows without strides and dilation
_SPACING = ((1, 2), (1, 0), (1, 2))
_SEEN = (tuple(range(max(i - 1, 0), min(i + 2, 7)) for i in range(7)), (range(0, 3, 2), range(2, 5, 2)))
_COUNTS = tuple(tuple(len(seen) for seen in dim) for dim in _SEEN)


def _maximum_backward(draw: _Draw) -> Arguments:
    places = _plain("maximum_forward", draw(2, 3, *_SIZE), _SEEN)[1]
    return draw(2, 3, *_OUT), places, _SIZE


# ---- sequences


def _attention(draw: _Draw) -> Arguments:
    mask = draw.mask(9, 11)
    mask[0] = False  # a query without keys
    bias = draw(2, 3, 9, 11)
    return draw(2, 3, 9, 8), draw(2, 3, 11, 8), draw(2, 3, 11, 8), bias, mask, 0.35, False


def _attention_backward(draw: _Draw) -> Arguments:
    q, k, v, bias, mask, scale, causal = _attention(draw)
    y, peak, share = _plain("attention_forward", q, k, v, bias, mask, scale, causal)
    return draw(2, 3, 9, 8), q, k, v, bias, mask, y, peak, share, scale, causal


def _lstm(draw: _Draw) -> Arguments:
    seen = draw.mask(4, 3, 1)
    return draw(4, 3, 24), draw(3, 2), draw(3, 6), draw(24, 2), draw(2, 6), seen, True


def _lstm_backward(draw: _Draw) -> Arguments:
    _, _, cell, weight, projection, seen, reverse = given = _lstm(draw)
    _, gates, cells = _plain("lstm_forward", *given)
    return draw(4, 3, 2), draw(3, 2), draw(3, 6), cell, weight, projection, gates, cells, seen, reverse


def _gru(draw: _Draw) -> Arguments:
    return draw(4, 3, 18), draw(3, 6), draw(18, 6), draw(18), draw.mask(4, 3, 1), True


def _gru_backward(draw: _Draw) -> Arguments:
    _, first, weight, _, seen, reverse = given = _gru(draw)
    return (draw(4, 3, 6), draw(3, 6), first, weight, *_plain("gru_forward", *given), seen, reverse)


_LISTED: Mapping[str, Callable[[_Draw], Arguments]] = {
    "add_row": lambda draw: (draw(_ROWS, _WIDTH), draw(_WIDTH)),
    "layer_norm_forward": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "rms_norm_forward": lambda draw: (draw(_ROWS, _WIDTH), draw(_WIDTH), 1e-5),
    "rms_norm_backward": _rms_norm_backward,
    "batch_norm_forward": lambda draw: (*_planes(draw), 1e-5),
    "batch_norm_backward": _batch_norm_backward,
    "group_norm_forward": lambda draw: (*_planes(draw), 2, 1e-5),
    "group_norm_backward": _group_norm_backward,
    "softmax_backward": lambda draw: (draw(_ROWS, _WIDTH), *_plain("softmax_forward", draw(_ROWS, _WIDTH))),
    "log_softmax_backward": lambda draw: (
        draw(_ROWS, _WIDTH),
        *_plain("log_softmax_forward", draw(_ROWS, _WIDTH)),
    ),
    "glu_forward": lambda draw: (draw(_ROWS, 2 * _WIDTH), 1),
    "glu_backward": lambda draw: (draw(_ROWS, _WIDTH), draw(_ROWS, 2 * _WIDTH), 1),
    "swiglu_forward": lambda draw: (draw(_ROWS, 2 * _WIDTH),),
    "swiglu_backward": lambda draw: (draw(_ROWS, _WIDTH), draw(_ROWS, 2 * _WIDTH)),
    "cross_entropy_forward": lambda draw: (*_labels(draw), -100),
    "cross_entropy_backward": _cross_entropy_backward,
    "cross_entropy_and_slope": lambda draw: (*_labels(draw), -100, 0.25),
    "weighted_cross_entropy_forward": lambda draw: (*_labels(draw), draw.positive(_WIDTH), -100, 0.1),
    "weighted_cross_entropy_backward": _weighted_cross_entropy_backward,
    "soft_cross_entropy_forward": lambda draw: (
        draw(_ROWS, _WIDTH),
        draw.positive(_ROWS, _WIDTH),
        draw.positive(_WIDTH),
        0.1,
    ),
    "soft_cross_entropy_backward": _soft_cross_entropy_backward,
    "take_windows_": lambda draw: (draw(3, *_KERNEL, 2, *_OUT), draw(2, 3, *_SIZE), *_SPACING),
    "add_windows_": lambda draw: (draw(2, 3, *_SIZE), draw(3, *_KERNEL, 2, *_OUT), *_SPACING),
    "depthwise_forward": lambda draw: (draw(2, 3, *_SIZE), draw(6, 1, *_KERNEL), _OUT, *_SPACING),
    "depthwise_input": lambda draw: (draw(2, 6, *_OUT), draw(6, 1, *_KERNEL), 3, _SIZE, *_SPACING),
    "depthwise_weight": lambda draw: (draw(2, 3, *_SIZE), draw(2, 6, *_OUT), _KERNEL, *_SPACING),
    "direct_forward": lambda draw: (draw(2, 3, *_SIZE), draw(4, 3, *_KERNEL), _DIRECT, (1, 0)),
    "direct_weight": lambda draw: (draw(2, 3, *_SIZE), draw(2, 4, *_DIRECT), _KERNEL, (1, 0)),
    "average_forward": lambda draw: (draw(2, 3, *_SIZE), _SEEN, _COUNTS),
    "average_backward": lambda draw: (draw(2, 3, *_OUT), _SEEN, _COUNTS, _SIZE),
    "maximum_forward": lambda draw: (draw(2, 3, *_SIZE), _SEEN),
    "maximum_backward": _maximum_backward,
    "resample_forward": lambda draw: (draw(2, 7, 5), draw.below(7, 2, 9), draw(2, 9)),
    "resample_backward": lambda draw: (draw(2, 9, 5), draw.below(7, 2, 9), draw(2, 9), 7),
    "attention_forward": _attention,
    "attention_backward": _attention_backward,
    "lstm_forward": _lstm,
    "lstm_backward": _lstm_backward,
    "gru_forward": _gru,
    "gru_backward": _gru_backward,
    "dropout_forward": lambda draw: (draw(_ROWS, _WIDTH), 0.3, -5, 2**40 + 7, 3),
    "dropout_backward": lambda draw: (draw(_ROWS, _WIDTH), draw.mask(_ROWS, _WIDTH), 0.3),
    "embedding_backward": lambda draw: (draw(_ROWS, _WIDTH), draw.below(7, _ROWS), 7),
    "scatter_rows": lambda draw: (draw(2, 9, 5), draw.below(4, 9).astype(np.int32), 4),
    "gather_along": lambda draw: (draw(2, 4, 5), draw.below(4, 2, 9, 5)),
    "scatter_along": lambda draw: (draw(2, 9, 5), draw.below(4, 2, 9, 5), 4),
    "product_backward": lambda draw: (draw(_ROWS), draw.positive(_ROWS, 9)),
    "top_of_rows": lambda draw: (draw(_ROWS, _WIDTH), 5, True),
    "widened_float16": lambda draw: (draw(_ROWS, _WIDTH).astype(np.float16).view(np.uint16),),
    "transposed": lambda draw: (draw(2, _ROWS, _WIDTH).view(np.uint32),),
}
