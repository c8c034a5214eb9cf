"""Functions of Python's numbers inside formulas, without NumPy's promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["weak"]


def weak(function: Callable[[Any], Any], x: Any) -> Any:
    """Return ``function(x)``: for a Python number a Python number, which takes the dtype of what it meets.

    NumPy's functions give NumPy's scalars, whose float64 would turn a float32 result into float64.
    """
    return function(x).item() if isinstance(x, (bool, int, float, complex)) else function(x)
