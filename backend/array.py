"""The types that stand for arrays in signatures.

One alias stands for all four kinds of array that a formula may meet (``numpy.ndarray``,
``cupy.ndarray``, :class:`~shardwise.backend.shape.ShapeArray` and, under ``create_graph``, Tensors):
they share NumPy's protocols and no base class, so a type checker is told of the one it knows.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "DTypeLike", "Shape"]

Array: TypeAlias = npt.NDArray[Any]
"""An array of any kind, of any shape and dtype."""

Shape: TypeAlias = tuple[int, ...]
"""The length of every dim, outermost first."""

DTypeLike: TypeAlias = np.dtype[Any] | type[Any] | str
"""Whatever ``numpy.dtype`` accepts by name, class or instance."""
