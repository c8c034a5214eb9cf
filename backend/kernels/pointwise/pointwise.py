"""Kernels of functions of single elements: a formula, and beside it the loop made of a scalar function.

To add one, write its formula in the file of its family, here ``rectifier.py``::

    def _leaky_relu_forward(x: Array, slope: float) -> Array:
        return np.where(x > 0.0, x, x * slope)

    leaky_relu_forward = pointwise_kernel(_leaky_relu_forward, f"{_FUSED}:leaky_relu_forward", arrays=1)

and the same for one element, with the same parameters, in ``rectifier_cpu.py``; see ``pointwise_cpu.py``.
Add the kernel to ``pointwise_table.py``, where the tests find it. The CUDA version is made of the formula, of
the names that ``formula_source.py`` knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["WORTH_FUSING", "pointwise_kernel"]

P = ParamSpec("P")

_CUDA = "shardwise.backend.kernels.pointwise.pointwise_cuda:PointwiseOnDevice"

WORTH_FUSING = 2048
"""Elements from which a pass over them takes longer than a few calls, and importing numba pays."""


def pointwise_kernel(
    plain: Callable[P, Array], fused: str, arrays: int, mask: str = "", cuda: str = _CUDA
) -> Kernel[P, Array]:
    """Return the kernel of a pointwise formula.

    Parameters
    ----------
    plain : callable
        The formula. Arrays come first, and broadcast.
    fused : str
        Where the fused version is, see :class:`Kernel`.
    arrays : int
        How many parameters are arrays; numbers follow.
    mask : str, optional
        The name of the one that is an array of booleans.
    cuda : str, optional
        Where the version for CuPy arrays is; by default it is made of the formula.
    """
    return Kernel(plain, fused, arrays, integer=mask, least=WORTH_FUSING, cuda=cuda)
