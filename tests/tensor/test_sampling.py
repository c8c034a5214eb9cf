"""Random tensors: distributions, dtypes, and the same numbers from the same seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor import row_window
from shardwise.tensor.sampling import (
    bernoulli,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)

WEIGHTS = sw.tensor([[1.0, 0.0, 3.0], [0.5, 0.5, 0.0]])

DRAWS: dict[str, Callable[[], Any]] = {
    "rand": lambda: rand(4, 3),
    "randn": lambda: randn(4, 3, dtype=np.float64),
    "rand_like": lambda: rand_like(sw.zeros(4, dtype=np.float16)),
    "randn_like": lambda: randn_like(sw.zeros(4, dtype=np.complex64)),
    "randint": lambda: randint(9, (4,)),
    "randint_like": lambda: randint_like(sw.zeros(4), 9),
    "randperm": lambda: randperm(9),
    "bernoulli": lambda: bernoulli(0.5, (9,)),
    "normal": lambda: normal(0.0, 1.0, (4,)),
    "multinomial": lambda: multinomial(WEIGHTS, 5, True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_same_numbers(name: str) -> None:
    sw.manual_seed(7)
    first, second = DRAWS[name]().tolist(), DRAWS[name]().tolist()
    sw.manual_seed(7)
    assert DRAWS[name]().tolist() == first != second


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_rows_of_a_window_are_rows_of_the_whole(dtype: Any) -> None:
    for make in (rand, randn):
        sw.manual_seed(1)
        whole = make(6, 2, dtype=dtype)
        sw.manual_seed(1)
        with row_window(2, 3):
            assert make(3, 2, dtype=dtype).tolist() == whole[2:5].tolist()


def test_moments() -> None:
    sw.manual_seed(0)
    z = randn(20_000, dtype=np.complex128).data
    assert abs(z.mean()) < 0.02
    np.testing.assert_allclose([z.real.var(), z.imag.var(), (abs(z) ** 2).mean()], [0.5, 0.5, 1.0], atol=0.02)
    u = rand(20_000, dtype=np.complex64).data
    np.testing.assert_allclose([u.real.mean(), u.imag.mean()], 0.5, atol=0.01)
    x = normal(3.0, 2.0, (20_000,)).data
    np.testing.assert_allclose([x.mean(), x.std()], [3.0, 2.0], atol=0.05)
    assert x.dtype == np.float32
    y = normal(sw.tensor([0.0, 10.0]), sw.tensor([[1.0], [0.0]]))
    assert (y.shape, y.data[1].tolist(), y.dtype) == ((2, 2), [0.0, 10.0], np.float32)


def test_integers() -> None:
    sw.manual_seed(0)
    for x in (randint(3, (100,)), randint(0, 3, (100,)), randint(3, size=(100,)), randint(high=3, size=100)):
        assert (x.dtype, sorted(set(x.tolist()))) == (np.int64, [0, 1, 2])
    assert randint(-2, 0, (50,), dtype=np.int8).dtype == np.int8
    assert randint_like(sw.zeros(3), 5, 6).tolist() == [5.0] * 3
    assert randperm(4, dtype=np.int32).dtype == np.int32
    with pytest.raises(ArgumentError, match=r"randint: wanted \(high, size\) or \(low, high, size\)"):
        randint(3)
    with pytest.raises(ArgumentError, match="wanted low < high"):
        randint(3, 3, (1,))


def test_trials() -> None:
    sw.manual_seed(0)
    assert bernoulli(0.25, (4000,)).double().mean().item() == pytest.approx(0.25, abs=0.03)
    p = sw.tensor([[0.0, 1.0, 0.5]]).expand(1000, 3)
    x = bernoulli(p)
    assert (x.dtype, x.shape) == (np.float32, (1000, 3))
    assert x.data[:, :2].tolist() == [[0.0, 1.0]] * 1000
    assert x.data[:, 2].mean() == pytest.approx(0.5, abs=0.06)
    with pytest.raises(ArgumentError, match="bernoulli: wanted probabilities from 0 to 1"):
        bernoulli(sw.tensor([1.5]))
    with pytest.raises(ArgumentError, match="needs a size"):
        bernoulli(0.5)


def test_choices_with_replacement() -> None:
    sw.manual_seed(0)
    x = multinomial(WEIGHTS, 4000, replacement=True)
    assert (x.shape, x.dtype) == ((2, 4000), np.int64)
    counts = np.stack([np.bincount(row, minlength=3) for row in x.data]) / 4000
    np.testing.assert_allclose(counts, [[0.25, 0.0, 0.75], [0.5, 0.5, 0.0]], atol=0.03)
    assert counts[0, 1] == counts[1, 2] == 0


def test_choices_without_replacement() -> None:
    sw.manual_seed(0)
    x = multinomial(WEIGHTS, 2)
    assert np.sort(x.data, 1).tolist() == [[0, 2], [0, 1]]
    first = [multinomial(sw.tensor([1.0, 2.0, 5.0]), 3).tolist() for _ in range(1500)]
    assert all(sorted(each) == [0, 1, 2] for each in first)
    np.testing.assert_allclose(
        np.bincount([each[0] for each in first]) / 1500, [0.125, 0.25, 0.625], atol=0.04
    )
    after = [each[1] for each in first if each[0] == 2]
    np.testing.assert_allclose(np.bincount(after) / len(after), [1 / 3, 2 / 3], atol=0.05)


def test_choices_that_cannot_be_made() -> None:
    with pytest.raises(
        ArgumentError, match="cannot draw 3 samples without replacement from 2 weights above zero"
    ):
        multinomial(WEIGHTS, 3)
    for weights in ([-1.0, 2.0], [0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0]):
        with pytest.raises(ArgumentError, match="multinomial: wanted weights of 0 or more, finite"):
            multinomial(sw.tensor(weights), 1)
    with pytest.raises(ShapeError, match=r"multinomial: wanted weights of shape .* got \(1, 1, 1\)"):
        multinomial(sw.ones(1, 1, 1), 1)


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match="normal: give a size with numbers, and none with tensors"):
        normal(0.0, 1.0)
    with pytest.raises(ArgumentError, match="normal: wanted a standard deviation of 0 or more"):
        normal(0.0, -1.0, (2,))
    with pytest.raises(DTypeError, match="wanted float32, float64, float16 or bfloat16, got int64"):
        rand(2, dtype=np.int64)
    with pytest.raises(DTypeError, match="got int64"):
        randn_like(sw.tensor([1]))


def test_draws_without_data() -> None:
    meta = sw.zeros(4, 3, device="shape")
    for x in (rand_like(meta), randn_like(meta), randint_like(meta, 3), normal(meta, 1.0)):
        assert (x.shape, x.is_meta) == ((4, 3), True)
    assert multinomial(meta, 2).shape == (4, 2)
