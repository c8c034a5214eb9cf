"""Stand-ins: NumPy arrays that have a shape and a dtype, and take the memory of one element.

Their strides are all 0, so every element is the same one. The rules for ``ShapeArray`` work on them: a
function that only makes a view may simply be called on one, whatever its shape. For the others a rule
works out the shape by itself, and finds the dtype (and NumPy's own errors about axes and types) by calling
the function on a *probe*, an array of no or one element.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import DataDependentShapeError, ShapeError
from shardwise.backend.source import source_line

__all__ = ["broadcast_shape", "data_dependent", "empty_probe", "one_probe", "stand_in"]


def stand_in(shape: Shape, dtype: DTypeLike) -> Array:
    """An array of `shape` and `dtype` that takes the memory of one element; its values mean nothing."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def empty_probe(value: object) -> object:
    """For an array, one of its dtype without elements; a Python scalar, which is weak, as it is."""
    return np.empty(0, value.dtype) if isinstance(value, np.ndarray | np.generic) else value


def one_probe(a: Array) -> Array:
    """`a` with every dim cut to one element (empty dims stay empty)."""
    return np.zeros(tuple(min(length, 1) for length in a.shape), a.dtype)


def broadcast_shape(*values: object) -> Shape:
    """The shape that arrays and scalars broadcast to.

    Raises
    ------
    ShapeError
        If they do not.
    """
    shapes = [np.shape(value) if isinstance(value, np.ndarray) else () for value in values]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        listed = " and ".join(str(shape) for shape in shapes)
        raise ShapeError(f"arrays of shapes {listed} do not broadcast together.") from error


def data_dependent(operation: str) -> DataDependentShapeError:
    """The error for an operation that only data could answer, with the user's line that asked for it."""
    return DataDependentShapeError(
        f"{operation} at {source_line()} depends on the data of the array, and a ShapeArray holds none. "
        "Run this part on arrays with data, or write it with operations whose result has a known shape."
    )
