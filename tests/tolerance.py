"""The one place where tests take their tolerances from: the dtype, and how many terms were added up."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["tolerance"]

_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def tolerance(dtype: np.dtype[np.generic] | type[np.generic] | str, length: int = 1) -> float:
    """The error to allow, relative to the largest term, in a sum of `length` terms of `dtype`.

    A pointwise result may be off by a few units in the last place. Rounding errors of a sum grow with the
    square root of its length when they are random, and the factor leaves room for those that are not.

    Parameters
    ----------
    dtype : dtype
        float64, float32, float16 or bfloat16.
    length : int, default 1
        How many terms were added up; 1 for a pointwise result.

    Returns
    -------
    float
    """
    return 8.0 * _EPSILON[np.dtype(dtype).name] * math.sqrt(max(length, 1))
