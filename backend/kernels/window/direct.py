"""Convolutions of few channels, in two dims and without strides, straight from images to sums.

Where a window of all channels is small, laying windows out costs a good part of the product, and the product
of few rows is not BLAS's best. Padding is that in front; behind are zeros, as many as the sizes ask for.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.window.convolution import Key, overlaps

__all__ = ["direct_forward", "direct_weight", "fits_direct"]

_FUSED = "shardwise.backend.kernels.window.direct_cpu"
_ONES = (1, 1)
_SEEN = 320  # elements of a window: those of a tile of places then stay in the first cache
_WEIGHTS = 1 << 15  # elements that stay in the second cache, from which every tile reads all
_PLACES = 32  # of a tile in float32, of which nine tenths should be there


def fits_direct(
    a: Array,
    b: Array,
    outputs: int,
    window: int,
    places: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> bool:
    """Tell whether a convolution is best made by these kernels.

    Parameters
    ----------
    a, b : arrays
        Its operands.
    outputs : int
        Channels of the result.
    window : int
        Elements of a window, over all channels.
    places : tuple of int
        Of the outputs.
    stride, padding, dilation, groups
        Of the convolution.
    """
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.dtype != b.dtype or a.dtype.kind != "f":
        return False
    if len(places) != 2 or groups != 1 or min(padding) < 0:
        return False
    if window > _SEEN or outputs * window > _WEIGHTS:
        return False
    lost = -places[1] % _PLACES
    return stride == dilation == _ONES and a.itemsize in (4, 8) and 10 * lost <= places[1] + lost


def _direct_forward(x: Array, weight: Array, size: Shape, padding: Shape) -> Array:
    """Correlate `x` with `weight`.

    Parameters
    ----------
    x : array, shape (batch, channels, height, width)
    weight : array, shape (outputs, channels, *kernel)
    size : tuple of two int
        Of the result's places.
    padding : tuple of two int, not negative

    Returns
    -------
    array, shape (batch, outputs, *size)
    """
    out = np.zeros((x.shape[0], weight.shape[0], *size), x.dtype, like=x)
    for place, outputs, inputs in overlaps(x.shape[2:], weight.shape[2:], size, _ONES, padding, _ONES):
        seen = x[inputs]
        flat = np.reshape(seen, (*seen.shape[:2], -1))
        product = np.matmul(weight[_tap(place)], flat)
        out[outputs] += np.reshape(product, (*product.shape[:2], *seen.shape[2:]))
    return out


def _direct_weight(x: Array, g: Array, kernel: Shape, padding: Shape) -> Array:
    """The gradient of :func:`direct_forward` with respect to the weight.

    Parameters
    ----------
    x : array, shape (batch, channels, height, width)
    g : array, shape (batch, outputs, *out)
    kernel : tuple of two int
    padding : tuple of two int, not negative

    Returns
    -------
    array, shape (outputs, channels, *kernel)
    """
    total = np.zeros((g.shape[1], x.shape[1], *kernel), x.dtype, like=x)
    for place, outputs, inputs in overlaps(x.shape[2:], kernel, g.shape[2:], _ONES, padding, _ONES):
        given, seen = (np.reshape(a, (*a.shape[:2], -1)) for a in (g[outputs], x[inputs]))
        products = np.matmul(given, np.swapaxes(seen, 1, 2))
        total[_tap(place)] = np.sum(products, axis=0)
    return total


def _tap(place: Shape) -> Key:
    return (slice(None), slice(None), *place)


direct_forward = Kernel(_direct_forward, f"{_FUSED}:direct_forward", arrays=2)
direct_weight = Kernel(_direct_weight, f"{_FUSED}:direct_weight", arrays=2)
