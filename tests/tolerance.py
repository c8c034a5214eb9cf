"""The one place where tests take their tolerances from: the dtype, and how many terms were added up."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor import Tensor

__all__ = ["assert_close", "assert_near", "tolerance", "widened"]

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


def assert_close(actual: Array, expected: Array, length: int = 1, scale: float = 1e-30) -> None:
    """Compare by the dtype of `actual`, relative to the largest finite element that is expected.

    NaN and infinity have to be in the same places, and shapes the same. `scale` is the size of the terms
    that were added up, for results that are small because they cancel.
    """
    assert actual.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    np.testing.assert_array_equal(
        actual[np.isinf(expected)], expected[np.isinf(expected)].astype(actual.dtype)
    )
    wide, reference = actual[finite].astype(np.float64), expected[finite].astype(np.float64)
    scale = max(float(np.max(np.abs(reference), initial=0.0)), scale)
    worst = float(np.max(np.abs(wide - reference), initial=0.0)) / scale
    assert worst <= tolerance(actual.dtype, length), f"{worst:.2e} > {tolerance(actual.dtype, length):.2e}"


def assert_near(got: Tensor | None, want: object, length: int = 1) -> None:
    """Compare a tensor by its dtype, relative to the largest finite element that is expected, or to 1."""
    assert got is not None
    expected = np.asarray(want, np.float64)
    assert got.shape == expected.shape
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
    np.testing.assert_allclose(
        got.detach().numpy().astype(np.float64),
        expected,
        rtol=0,
        atol=scale * tolerance(got.dtype, length),
    )


def widened(*arguments: object) -> tuple[object, ...]:
    """The arguments with floating arrays in float64: what a reference is worked out from."""
    return tuple(
        x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind not in "iubc" else x
        for x in arguments
    )
