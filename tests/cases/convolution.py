"""Calls of the convolutions, in float64 and complex128, small enough for finite differences."""

from __future__ import annotations

import shardwise as sw
from cases.operand import Case, make
from shardwise.nn import functional as F
from shardwise.tensor import Tensor

__all__ = ["CASES"]


def twisted(*shape: int, seed: int = 0) -> Tensor:
    """A complex128 tensor that requires grad."""
    parts = make(*shape, seed=seed).data + 1j * make(*shape, seed=seed + 1).data
    return sw.tensor(parts, requires_grad=True)


CASES: dict[str, Case] = {
    "conv1d": (F.conv1d, (make(2, 2, 5), make(3, 2, 3), make(3))),
    "conv1d unbatched": (lambda x, w: F.conv1d(x, w, padding=1), (make(2, 4), make(2, 2, 3))),
    "conv1d same, even kernel": (lambda x, w: F.conv1d(x, w, padding="same"), (make(1, 2, 4), make(2, 2, 2))),
    "conv1d strided, dilated": (
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=2, dilation=2),
        (make(2, 2, 6), make(3, 2, 3), make(3)),
    ),
    "conv1d depthwise": (
        lambda x, w: F.conv1d(x, w, stride=2, padding=1, groups=2),
        (make(2, 2, 5), make(4, 1, 3)),
    ),
    "conv1d no images": (F.conv1d, (make(0, 2, 5), make(3, 2, 3), make(3))),
    "conv1d by itself": (lambda x: F.conv1d(x, x, padding=2), (make(2, 2, 3),)),
    "conv1d turned": (
        lambda x, w: F.conv1d(x.transpose(1, 2), w.transpose(0, 1)),
        (make(2, 5, 2), make(2, 3, 3)),
    ),
    "conv1d complex": (
        lambda x, w, b: F.conv1d(x, w, b, padding=1),
        (twisted(1, 2, 4), twisted(2, 2, 3), twisted(2)),
    ),
    "conv2d": (F.conv2d, (make(2, 2, 4, 3), make(3, 2, 2, 3), make(3))),
    "conv2d options": (
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        (make(1, 2, 4, 4), make(2, 2, 3, 2)),
    ),
    "conv2d groups": (
        lambda x, w, b: F.conv2d(x, w, b, groups=2),
        (make(1, 4, 3, 3), make(2, 2, 2, 2), make(2)),
    ),
    "conv2d pointwise": (F.conv2d, (make(2, 3, 2, 2), make(2, 3, 1, 1), make(2))),
    "conv2d depthwise": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=2),
        (make(1, 2, 3, 3), make(2, 1, 3, 3)),
    ),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=(1, 0, 0)), (make(1, 2, 2, 3, 2), make(2, 2, 2, 2, 2))),
    "conv_transpose1d": (
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1),
        (make(2, 2, 3), make(2, 3, 3), make(3)),
    ),
    "conv_transpose1d complex": (F.conv_transpose1d, (twisted(1, 2, 3), twisted(2, 1, 2), twisted(1))),
    "conv_transpose1d depthwise": (
        lambda x, w: F.conv_transpose1d(x, w, stride=3, groups=2, dilation=2),
        (make(2, 2, 3), make(2, 1, 3)),
    ),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, groups=2, dilation=(1, 2)),
        (make(1, 4, 2, 2), make(4, 1, 2, 2)),
    ),
    "conv_transpose3d": (
        lambda x, w, b: F.conv_transpose3d(x, w, b, stride=(1, 2, 1)),
        (make(2, 1, 2, 2), make(2, 1, 1, 2, 2), make(1)),
    ),
    "unfold": (
        lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=(1, 2)),
        (make(2, 2, 3, 4),),
    ),
    "fold": (lambda x: F.fold(x, (3, 4), 2, padding=(0, 1), stride=(1, 2)), (make(2, 8, 6),)),
    "fold unbatched": (lambda x: F.fold(x, 3, 2), (make(4, 4),)),
}
