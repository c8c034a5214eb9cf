"""AdamW, against the update written out in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.optimizer import adamw_
from tolerance import assert_close, widened

LR, BETA1, BETA2, EPS, DECAY = 3e-3, 0.9, 0.95, 1e-8, 0.1


def state(shape: tuple[int, ...], dtype: type[np.floating]) -> list[np.ndarray]:
    rng = np.random.default_rng(16)
    param, grad, average, square = rng.standard_normal((4, *shape)).astype(dtype)
    return [np.array(a, dtype) for a in (param, grad, average * 0.1, square * square)]


def options(step: int) -> tuple[float, ...]:
    return (LR, BETA1, BETA2, EPS, DECAY, 1 - BETA1**step, 1 - BETA2**step)


def written_out(param: float, grad: float, m: float, v: float, step: int) -> tuple[float, float, float]:
    """Algorithm 2 of Loshchilov and Hutter, with PyTorch's placing of epsilon."""
    param *= 1 - LR * DECAY
    m = BETA1 * m + (1 - BETA1) * grad
    v = BETA2 * v + (1 - BETA2) * grad**2
    m_hat, v_hat = m / (1 - BETA1**step), v / (1 - BETA2**step)
    return param - LR * m_hat / (math.sqrt(v_hat) + EPS), m, v


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (77,), (6, 5, 4), (0,)])
@pytest.mark.parametrize("step", [1, 10_000])
@pytest.mark.parametrize("plain", [True, False])
def test_update(plain: bool, step: int, shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    arrays = state(shape, dtype)
    if step == 1:
        arrays[2][...] = 0.0
        arrays[3][...] = 0.0
    expected = np.empty((3, *shape))
    for place in np.ndindex(shape):
        expected[(slice(None), *place)] = written_out(*(float(a[place]) for a in arrays), step)
    gradient = arrays[1].copy()
    assert (adamw_.plain if plain else adamw_)(*arrays, *options(step)) is None
    for ours, reference in zip((arrays[0], *arrays[2:]), expected, strict=True):
        assert ours.dtype == dtype
        assert_close(ours, reference)
    np.testing.assert_array_equal(arrays[1], gradient)


def test_arrays_with_gaps_are_updated_in_place() -> None:
    whole = [np.repeat(a, 2) for a in state((9,), np.float32)]
    views = [a[::2] for a in whole]
    expected = [a.copy() for a in views]
    adamw_(*expected, *options(3))
    adamw_(*views, *options(3))
    untouched = [np.repeat(a, 2)[1::2] for a in state((9,), np.float32)]
    for a, b, original, kept in zip(views, expected, whole, untouched, strict=True):
        assert_close(a, b.astype(np.float64))
        np.testing.assert_array_equal(original[1::2], kept)


def test_a_frozen_parameter_is_refused_and_not_copied() -> None:
    arrays = state((4,), np.float32)
    arrays[0].flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        adamw_(*arrays, *options(1))


def test_zero_gradient_from_the_start_only_decays() -> None:
    param = np.ones(3, np.float32)
    adamw_(param, *(np.zeros(3, np.float32) for _ in range(3)), *options(1))
    np.testing.assert_allclose(param, 1 - LR * DECAY, rtol=1e-7)


def test_a_nan_gradient_is_seen() -> None:
    arrays = state((3,), np.float32)
    arrays[1][1] = np.nan
    adamw_(*arrays, *options(1))
    np.testing.assert_array_equal(np.isnan(arrays[0]), [False, True, False])


@pytest.mark.parametrize("plain", [True, False])
def test_shapes_that_do_not_fit(plain: bool) -> None:
    kernel = adamw_.plain if plain else adamw_.fused
    arrays = state((4,), np.float32)
    arrays[1] = arrays[1].reshape(2, 2)
    with pytest.raises(ShapeError) as caught:
        kernel(*arrays, *options(1))
    assert str(caught.value) == (
        "adamw_: the parameter has shape (4,), and its gradient, exp_avg and exp_avg_sq have (2, 2), (4,) "
        "and (4,); wanted the same."
    )


def test_widened_state_gives_the_same_update() -> None:
    arrays = state((50,), np.float32)
    wide = list(widened(*arrays))
    adamw_(*arrays, *options(5))
    adamw_.plain(*wide, *options(5))
    assert_close(arrays[0], wide[0])
