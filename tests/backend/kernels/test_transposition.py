"""Copies in C order, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.kernels.memory.transposition import compact, transposed

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize(
    "shape", [(1, 16, 16), (2, 17, 33), (1, 3, 40), (3, 40, 3), (1, 300, 257), (0, 4, 5), (2, 0, 3)]
)
def test_transposed(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    words = RNG.integers(0, 1 << 31, shape).astype(dtype)
    for version in (transposed.fused, transposed.plain):
        result = version(words)
        np.testing.assert_array_equal(result, words.transpose(0, 2, 1))
        assert result.flags.c_contiguous
        assert result.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.float16, np.complex64, np.bool_])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((300, 400), (1, 0)),
        ((2, 300, 400), (0, 2, 1)),
        ((2, 30, 20, 200), (0, 3, 1, 2)),
        ((2, 200, 30, 20), (0, 2, 3, 1)),
        ((1, 300, 1, 400), (3, 2, 1, 0)),
        ((20, 30, 200), (2, 1, 0)),
        ((4, 300, 100), (1, 0, 2)),
        ((4, 70_000), (1, 0)),
        ((30, 40), (1, 0)),
    ],
)
def test_compact_is_a_copy_in_c_order(
    shape: tuple[int, ...], dims: tuple[int, ...], dtype: type[np.generic]
) -> None:
    x = (RNG.standard_normal(shape) * 10).astype(dtype)
    for view in (x.transpose(dims), x[::-1].transpose(dims), x[..., ::2].transpose(dims), x):
        result = compact(view)
        np.testing.assert_array_equal(result, view)
        assert (result.dtype, result.shape) == (view.dtype, view.shape)
        assert result.flags.c_contiguous
        assert not np.shares_memory(result, x)


def test_broadcast_and_misaligned_arrays() -> None:
    x = np.broadcast_to(np.arange(400, dtype=np.float32)[:, None], (400, 300))
    np.testing.assert_array_equal(compact(x), x)
    raw = np.frombuffer(b"\0" + np.ones((400, 300), np.float32).tobytes(), np.float32, offset=1)
    np.testing.assert_array_equal(compact(raw.reshape(400, 300).T), np.ones((300, 400)))
