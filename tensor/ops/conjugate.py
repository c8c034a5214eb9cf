"""The complex conjugate inside formulas, free for real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["conj"]


def conj(x: Any) -> Any:
    """Return the complex conjugate of an array, Tensor or Python number; what is real comes back as it is.

    NumPy's own would copy a real array.
    """
    if type(x) is complex:
        return x.conjugate()
    return np.conjugate(x) if getattr(getattr(x, "dtype", None), "kind", "f") == "c" else x
