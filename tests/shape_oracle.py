"""NumPy as the oracle of ShapeArray: one call, with data and without, has to give one shape and dtype."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shardwise.backend.errors import DataDependentShapeError
from shardwise.backend.shape import ShapeArray

__all__ = ["DTYPES", "agree", "dtypes", "same", "shapes"]

DTYPES = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8", "c16"]
dtypes = st.sampled_from(DTYPES)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def same(result: object, expected: object) -> None:
    """Compare a result on shapes with NumPy's, through lists and tuples."""
    if isinstance(expected, list | tuple) and not isinstance(result, ShapeArray):
        assert len(result) == len(expected)
        for ours, reference in zip(result, expected, strict=True):
            same(ours, reference)
    elif isinstance(expected, np.ndarray | np.generic):
        assert isinstance(result, ShapeArray), result
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    else:
        assert result == expected


def agree(function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Call `function` with data and with shapes: both raise, or both give the same shape and dtype."""

    def on_shapes(value: object) -> object:
        if isinstance(value, np.ndarray):
            return ShapeArray(value.shape, value.dtype)
        return type(value)(map(on_shapes, value)) if type(value) in (list, tuple) else value

    with np.errstate(all="ignore"):
        try:
            expected = function(*args, **kwargs)
        except (TypeError, ValueError, IndexError, OverflowError):
            with pytest.raises((TypeError, ValueError, IndexError, OverflowError)) as caught:
                function(*map(on_shapes, args), **{k: on_shapes(v) for k, v in kwargs.items()})
            assert not isinstance(caught.value, DataDependentShapeError)
            return
    same(function(*map(on_shapes, args), **{k: on_shapes(v) for k, v in kwargs.items()}), expected)
