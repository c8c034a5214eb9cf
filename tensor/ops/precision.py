"""Which inputs of an op the fused kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["are_wide_floats"]


def are_wide_floats(*inputs: Any) -> bool:
    """Tell whether all are NumPy's arrays of float32 or of float64, of one dtype."""
    dtype = getattr(inputs[0], "dtype", None)
    if type(inputs[0]) is not np.ndarray or dtype is None or dtype.char not in "fd":
        return False
    return all(type(x) is np.ndarray and x.dtype == dtype for x in inputs[1:])
