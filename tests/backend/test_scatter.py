"""Addition at an index, however it is written, against NumPy's own."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from shardwise.backend import scatter
from shardwise.backend.kernels.place.scatter import scatter_rows
from shardwise.backend.scatter import added_at
from tolerance import assert_close

ROWS, J = np.array([[1, 0, -1], [2, 2, 1]]), np.array([0, 3, 3])
MASK = np.array([True, False, True])

INDICES: dict[str, tuple[Any, ...]] = {
    "rows": (ROWS,),
    "middle": (slice(None), J),
    "last": (Ellipsis, J),
    "two": (ROWS, J),
    "two behind": (slice(None), J, J),
    "apart": (ROWS, slice(None), J),
    "apart by a new dim": (ROWS, None, J),
    "apart by dots for no dim": (slice(None), J, ..., J),
    "integer apart by dots for no dim": (slice(None), 1, ..., J),
    "with an integer": (1, slice(None), J),
    "integer beside": (slice(None), 2, J),
    "sliced": (slice(1, None), J[:1], slice(None, None, -2)),
    "sliced and new": (None, slice(0, 2), J, slice(1, 4)),
    "mask": (MASK,),
    "mask and rows": (MASK, slice(None), J[:2]),
    "mask of two dims": (np.tri(3, 4, dtype=bool),),
    "integer": (1,),
    "slices": (slice(None), slice(3, 0, -1)),
    "all": (ROWS, ROWS, ROWS),
    "no places": (np.zeros(0, np.int64),),
    "no dims": (np.array(2),),
    "unsigned": (np.array([1, 1], np.uint8),),
    "one boolean": (True, J[:1]),
    "nothing": (),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("fused", [True, False])
def test_as_numpy(name: str, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter, "_FUSED_FROM", 0 if fused else 1 << 60)
    rng = np.random.default_rng(3)
    shape, index = (3, 4, 5), INDICES[name]
    for dtype in (np.float32, np.complex128, np.int64):
        expected = np.zeros(shape, dtype)
        updates = (10 * rng.standard_normal(np.shape(expected[index]))).astype(dtype)
        np.add.at(expected, index, updates)
        result = added_at(shape, index, updates)
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_added_in_float32(dtype: type[np.generic]) -> None:
    total = added_at((2,), (np.zeros(3000, np.int64),), np.ones(3000, dtype))
    assert total.dtype == dtype
    assert float(total[0]) == float(np.float32(3000).astype(dtype))


def test_updates_broadcast() -> None:
    expected = np.zeros((3, 4))
    np.add.at(expected, (ROWS,), np.arange(4.0))
    np.testing.assert_array_equal(added_at((3, 4), (ROWS,), np.arange(4.0)), expected)
    np.testing.assert_array_equal(added_at((3, 0), (ROWS,), np.zeros((2, 3, 0))), np.zeros((3, 0)))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ((np.array([0, 3]),), "index 3 is out of bounds for axis 0 with size 3"),
        ((slice(None), np.array([-5])), "index -5 is out of bounds for axis 1 with size 4"),
        ((0, 0, 0), "too many indices: 3 for 2 dims"),
        ((np.array([0.5]),), "arrays used as indices must be of integers or booleans, not float64"),
    ],
)
def test_indices_that_do_not_fit(index: tuple[Any, ...], message: str) -> None:
    with pytest.raises(IndexError) as caught:
        added_at((3, 4), index, np.ones(()))
    assert str(caught.value) == message


@pytest.mark.parametrize("shape", [(1, 50, 1), (1, 50, 7), (3, 20, 4), (0, 5, 2), (2, 0, 3), (2, 5, 0)])
def test_the_kernel_adds_in_order(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(8)
    index = rng.integers(0, 6, shape[1]).astype(np.int32)
    g = rng.standard_normal(shape).astype(np.float32)
    expected = np.zeros((shape[0], 6, shape[2]))
    for i, place in enumerate(index):
        expected[:, place] += g[:, i]
    for version in (scatter_rows.plain, scatter_rows.fused):
        assert_close(version(g, index, 6), expected, 50)
