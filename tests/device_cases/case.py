"""A case: a call of a kernel, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.backend.kernels.kernel import Kernel

__all__ = ["RNG", "Case", "cast", "normal", "results"]

RNG = np.random.default_rng(17)


@dataclass(frozen=True, slots=True)
class Case:
    """A call of a kernel.

    `length` is how many terms its longest sum has, and `scale` the size of terms that may cancel.
    """

    kernel: Kernel[..., Any]
    arguments: tuple[Any, ...]
    length: int = 1
    scale: float = 1e-3


def cast(arguments: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The arguments with floating arrays in `dtype`, laid out as they were."""
    return tuple(
        x.astype(dtype, order="K") if isinstance(x, np.ndarray) and x.dtype.kind not in "iub" else x
        for x in arguments
    )


def results(kernel: Kernel[..., Any], arguments: tuple[Any, ...], answer: Any) -> tuple[Any, ...]:
    """What a call made: what it returned, or else the array that it wrote."""
    if answer is None:
        return (arguments[0],)
    return tuple(part for part in answer if part is not None) if isinstance(answer, tuple) else (answer,)


def normal(*shape: int) -> Any:
    return np.asarray(2.0 * RNG.standard_normal(shape))
