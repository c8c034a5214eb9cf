"""Running sums, products and extremes along a dim."""

from __future__ import annotations

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = [
    "FUSED_FROM", "product_backward", "running_largest", "running_product", "running_product_backward",
    "running_smallest", "running_sum",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.reduction.scan_cpu"
_EXTREME = "shardwise.backend.kernels.reduction.running_extreme_cpu"
_CUDA = "shardwise.backend.kernels.reduction.scan_cuda"

FUSED_FROM = 1 << 14
"""Elements; below, loading the compiled code would cost more than it saves."""


def _running_sum(x: Array, dim: int) -> Array:
    """The sums of the elements up to each along a dim, added up in double precision.

    Parameters
    ----------
    x : floating array, any shape
    dim : int
        Counted from the front.

    Returns
    -------
    array of `x`'s shape and dtype
    """
    return np.cumsum(x, axis=dim, dtype=np.float64).astype(x.dtype)


@np.errstate(over="ignore")  # of the rounding: beyond the range lies infinity
def _running_product(x: Array, dim: int) -> Array:
    """The products of the elements up to each along a dim, multiplied in double precision.

    See :func:`running_sum`.
    """
    return np.cumprod(x, axis=dim, dtype=np.float64).astype(x.dtype)


def _running_product_backward(g: Array, x: Array, dim: int) -> Array:
    """The gradient of :func:`running_product`, divided by nothing.

    Where ``p[i]`` is the product of all before ``x[i]``, it is ``p[i] * r[i]`` with
    ``r[i] = g[i] + x[i + 1] * r[i + 1]``. The recurrence is solved in log2(length) rounds: after one,
    ``r[i]`` has the terms of twice as many places, and ``span[i]`` is the product of the x between.

    Parameters
    ----------
    g, x : floating arrays of one shape, not empty
    dim : int
        Counted from the front.

    References
    ----------
    W. D. Hillis, G. L. Steele, "Data parallel algorithms", CACM 29, 1986.
    """
    n, step = x.shape[dim], 1
    r, span = g, x[_part(dim, 1, None)]
    while step < n:
        head = r[_part(dim, 0, n - step)] + span * r[_part(dim, step, None)]
        r = np.concatenate((head, r[_part(dim, n - step, None)]), axis=dim)
        if 2 * step < n:
            span = span[_part(dim, 0, n - 2 * step)] * span[_part(dim, step, None)]
        step *= 2
    one = np.ones_like(x[_part(dim, 1)])
    return np.cumprod(np.concatenate((one, x[_part(dim, 0, -1)]), axis=dim), axis=dim) * r


def _product_backward(g: Array, x: Array) -> Array:
    """The gradient of the product of each row: what stands before each factor times what stands behind it.

    Parameters
    ----------
    g : array, shape (rows,)
    x : floating array, shape (rows, factors), not empty
    """
    one = np.ones_like(x[:, :1])
    before = np.cumprod(np.concatenate((one, x[:, :-1]), axis=1), axis=1)
    after = np.cumprod(np.concatenate((one, x[:, :0:-1]), axis=1), axis=1)[:, ::-1]
    dx: Array = np.expand_dims(g, 1) * (before * after)
    return dx


def _part(dim: int, *limits: int | None) -> tuple[slice, ...]:
    return (slice(None),) * dim + (slice(*limits),)


def _running_largest(x: Array, dim: int) -> tuple[Array, Array]:
    """The largest so far along a dim, and the index of the last that is as large; NaN stays once it is met.

    Parameters
    ----------
    x : real array, any shape
    dim : int
        Counted from the front.

    Returns
    -------
    values : array of `x`'s shape and dtype
    indices : array of int64, of `x`'s shape
    """
    return _running(np.maximum, x, dim)


def _running_smallest(x: Array, dim: int) -> tuple[Array, Array]:
    """The smallest so far along a dim, and the index of the last that is as small; see `running_largest`."""
    return _running(np.minimum, x, dim)


def _running(choice: np.ufunc, x: Array, dim: int) -> tuple[Array, Array]:
    values = special.accumulate(choice, x, dim)
    shape = (1,) * dim + (x.shape[dim],) + (1,) * (x.ndim - dim - 1)
    places = np.reshape(np.arange(x.shape[dim], like=x), shape)
    return values, special.accumulate(np.maximum, np.where((x == values) | (x != x), places, 0), dim)


running_sum = Kernel(
    _running_sum,
    f"{_FUSED}:running_sum",
    arrays=1,
    least=FUSED_FROM,
    cuda=f"{_CUDA}:running_sum",
)
running_product = Kernel(
    _running_product, f"{_FUSED}:running_product", arrays=1, least=FUSED_FROM, cuda=f"{_CUDA}:running_product"
)
running_product_backward = Kernel(
    _running_product_backward, f"{_FUSED}:running_product_backward", arrays=2, least=FUSED_FROM
)
product_backward = Kernel(_product_backward, f"{_FUSED}:product_backward", arrays=2)
running_largest = Kernel(
    _running_largest,
    f"{_EXTREME}:running_largest",
    arrays=1,
    least=FUSED_FROM,
    cuda=f"{_CUDA}:running_largest",
)
running_smallest = Kernel(
    _running_smallest,
    f"{_EXTREME}:running_smallest",
    arrays=1,
    least=FUSED_FROM,
    cuda=f"{_CUDA}:running_smallest",
)
