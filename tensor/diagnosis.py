"""What went wrong in an op, in terms of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.errors import AnomalyError, DeviceError, DTypeError, ShapeError, ShardwiseError
from shardwise.backend.select import backend_of
from shardwise.backend.source import source_line
from shardwise.tensor.function import Function

__all__ = ["check_finite", "explained"]


def explained(function: type[Function], arrays: Sequence[Any], error: Exception) -> Exception | None:
    """Return a better error for one that an array library raised in a forward; None if there is none.

    Parameters
    ----------
    function : Function class
    arrays : sequence
        The inputs, tensors replaced by their arrays.
    error : Exception
    """
    if isinstance(error, ShardwiseError):
        return None
    held = [array for array in arrays if hasattr(array, "dtype") and hasattr(array, "shape")]
    devices = [backend_of(array).device_of(array) for array in held]
    if len(set(devices) - {"shape"}) > 1:
        return DeviceError(
            f"{function.__name__} cannot take inputs on different devices ({', '.join(devices)}); "
            "move them to one with to()"
        )
    why = str(error).strip()
    if isinstance(error, ValueError) and ("shape" in why or "dimension" in why):
        shapes = ", ".join(str(getattr(array, "shape", array)) for array in arrays)
        fix = _BROADCAST if "broadcast" in why else ""
        return ShapeError(f"{function.__name__} cannot take inputs of shapes {shapes}: {why}{fix}")
    if isinstance(error, TypeError) and why.startswith(_REFUSALS):
        kinds = ", ".join(str(getattr(array, "dtype", type(array).__name__)) for array in arrays)
        return DTypeError(
            f"{function.__name__} cannot take inputs of dtypes {kinds}: {why.rstrip('.')}. "
            "Cast with astype(), or use an op for these"
        )
    return None


_BROADCAST = (
    ". Sizes must be equal or 1, counted from the last dim; put dims of size 1 where they are missing, with "
    "unsqueeze() or reshape()"
)
_REFUSALS = ("ufunc ", "numpy boolean ", "The numpy boolean ", "unsupported operand type")
"""How NumPy's and Python's messages begin when an operation lacks a version for some dtypes."""


def check_finite(function: type[Function], outs: Sequence[Any], arrays: Sequence[Any]) -> None:
    """Raise at the first op that makes a NaN of inputs that have none."""
    if any(map(_has_nan, outs)):
        where = "got NaN in its inputs" if any(map(_has_nan, arrays)) else "made the first NaN"
        raise AnomalyError(f"{function.__name__} at {source_line(3)} {where}")


def _has_nan(array: Any) -> bool:
    return getattr(array, "dtype", np.dtype(bool)).kind in "fcV" and bool(np.any(np.isnan(array)))
