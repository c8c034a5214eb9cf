"""The fused steps of recurrent layers against their formulas in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.kernels.recurrent.gru import gru_backward, gru_forward
from shardwise.backend.kernels.recurrent.lstm import lstm_backward, lstm_forward
from tolerance import assert_close, widened

DTYPES = [np.float32, np.float64]
SIZES = [(5, 3, 4), (1, 1, 1), (7, 1, 33), (20, 6, 8), (12, 2, 65)]  # steps, rows, features
LENGTH = 100  # rounding errors of a step go into the next

each_size = pytest.mark.parametrize(("steps", "rows", "n"), SIZES)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_way = pytest.mark.parametrize("reverse", [False, True])
some_steps = pytest.mark.parametrize("masked", [False, True])


class Draw:
    def __init__(self, dtype: type[np.floating]) -> None:
        self.rng, self.dtype = np.random.default_rng(3), dtype

    def __call__(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * self.rng.standard_normal(shape)).astype(self.dtype)

    def seen(self, masked: bool, steps: int, rows: int) -> np.ndarray | None:
        return self.rng.random((steps, rows, 1)) < 0.6 if masked else None


def compare(fused: tuple[np.ndarray, ...], plain: tuple[np.ndarray, ...]) -> None:
    assert len(fused) == len(plain)
    for ours, expected in zip(fused, plain, strict=True):
        assert_close(ours, expected, LENGTH)


@each_dtype
@each_way
@some_steps
@each_size
@pytest.mark.parametrize("projected", [False, True])
def test_lstm(
    projected: bool, steps: int, rows: int, n: int, masked: bool, reverse: bool, dtype: type[np.floating]
) -> None:
    draw = Draw(dtype)
    p = max(n // 2, 1) if projected else n
    x, first, cell = draw(steps, rows, 4 * n), draw(rows, p), draw(rows, n)
    weight = draw(4 * n, p, scale=n**-0.5)
    projection = draw(p, n, scale=n**-0.5) if projected else None
    seen = draw.seen(masked, steps, rows)
    given = (x, first, cell, weight, projection, seen, reverse)
    plain = lstm_forward.plain(*widened(*given))
    fused = lstm_forward.fused(*given)
    assert fused[0].dtype == dtype
    compare((fused[0], fused[2]), (plain[0], plain[2]))
    if not masked:
        compare(fused[1:2], plain[1:2])
    gradients = (draw(steps, rows, p), draw(rows, p), draw(rows, n))
    kept = [part.astype(dtype) for part in plain[1:]]
    back = (*gradients, cell, weight, projection, *kept, seen, reverse)
    compare(lstm_backward.fused(*back), lstm_backward.plain(*widened(*back)))


@each_dtype
@each_way
@some_steps
@each_size
@pytest.mark.parametrize("biased", [False, True])
def test_gru(
    biased: bool, steps: int, rows: int, n: int, masked: bool, reverse: bool, dtype: type[np.floating]
) -> None:
    draw = Draw(dtype)
    x, first, weight = draw(steps, rows, 3 * n), draw(rows, n), draw(3 * n, n, scale=n**-0.5)
    bias, seen = draw(3 * n) if biased else None, draw.seen(masked, steps, rows)
    given = (x, first, weight, bias, seen, reverse)
    plain = gru_forward.plain(*widened(*given))
    compare(gru_forward.fused(*given), plain)
    kept = [part.astype(dtype) for part in plain]
    back = (draw(steps, rows, n), draw(rows, n), first, weight, *kept, seen, reverse)
    compare(gru_backward.fused(*back), gru_backward.plain(*widened(*back)))


def test_inputs_that_are_not_contiguous() -> None:
    draw = Draw(np.float32)
    x, first, cell = draw(4, 6, 40).swapaxes(0, 1), draw(10, 4).T, draw(4, 20)[:, ::2]
    weight = draw(10, 40).T
    compare(
        lstm_forward.fused(x, first, cell, weight, None, None, False),
        lstm_forward.plain(x, first, cell, weight, None, None, False),
    )
    x, weight = x[..., :30], weight[:30]
    states, *kept = gru_forward.fused(x, first, weight, None, None, False)
    g = np.broadcast_to(np.float32(0.5), states.shape)
    back = (g, g[0], first, weight, states, *kept, None, False)
    compare(gru_backward.fused(*back), gru_backward.plain(*back))


def test_saturated_gates_and_nan() -> None:
    x = np.zeros((2, 3, 8), np.float32)
    x[0, 0], x[0, 1], x[:, 2] = 1e30, -1e30, np.nan
    first, cell, weight = (
        np.zeros((3, 2), np.float32),
        np.ones((3, 2), np.float32),
        np.zeros((8, 2), np.float32),
    )
    states, gates, cells = lstm_forward.fused(x, first, cell, weight, None, None, False)
    np.testing.assert_array_equal(gates[0, 0], 1.0)
    np.testing.assert_array_equal(gates[0, 1], [0, 0, 0, 0, -1, -1, 0, 0])
    np.testing.assert_array_equal(cells[0], [[2, 2], [0, 0], [np.nan, np.nan]])
    assert np.isnan(states[:, 2]).all()
    assert not np.isnan(states[:, :2]).any()
