"""Random numbers in place: distributions, streams, and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import shardwise as sw
from shardwise.errors import ArgumentError, AutogradError, DTypeError
from shardwise.tensor import row_window

DISTRIBUTIONS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "uniform_": ((-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    "normal_": ((2.0, 0.5), stats.norm(2.0, 0.5)),
    "log_normal_": ((0.5, 0.8), stats.lognorm(0.8, scale=np.exp(0.5))),
    "exponential_": ((2.0,), stats.expon(scale=0.5)),
    "cauchy_": ((1.0, 2.0), stats.cauchy(1.0, 2.0)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name: str, dtype: Any) -> None:
    arguments, law = DISTRIBUTIONS[name]
    sw.manual_seed(0)
    x = sw.zeros(50, 40, dtype=dtype)
    assert getattr(x, name)(*arguments) is x
    assert x.dtype == dtype
    assert np.isfinite(x.data).all()
    assert stats.kstest(x.data.ravel(), law.cdf).pvalue > 0.001


def test_bernoulli_and_integers() -> None:
    sw.manual_seed(0)
    x = sw.zeros(2000).bernoulli_(0.3)
    assert set(x.tolist()) == {0.0, 1.0}
    assert abs(x.data.mean() - 0.3) < 0.04
    assert sw.zeros(3, dtype=bool).bernoulli_(1.0).tolist() == [True] * 3
    chances = sw.tensor([0.0, 1.0, 0.5])
    tossed = sw.zeros(1000, 3).bernoulli_(chances)
    np.testing.assert_allclose(tossed.data.mean(0), [0.0, 1.0, 0.5], atol=0.06)
    tossed = chances.requires_grad_().expand(1000, 3).bernoulli()
    np.testing.assert_allclose(tossed.data.mean(0), [0.0, 1.0, 0.5], atol=0.06)
    assert tossed.dtype == np.float32
    assert not tossed.requires_grad
    trials = sw.zeros(4000, dtype=np.int64).geometric_(0.25)
    assert trials.data.min() == 1
    assert abs(trials.data.mean() - 4.0) < 0.25
    n = sw.zeros(1000, dtype=np.int64).random_(-2, 3)
    assert set(n.tolist()) == {-2, -1, 0, 1, 2}
    assert set(sw.zeros(100).random_(2).tolist()) == {0.0, 1.0}
    assert sw.zeros(100, dtype=np.int8).random_().data.min() >= 0
    assert sw.zeros(1000, dtype=np.float16).random_().data.max() > 1024


def test_seeds_streams_and_windows() -> None:
    sw.manual_seed(3)
    a = sw.zeros(4, 3).normal_()
    b = sw.zeros(4, 3).normal_()
    assert not a.equal(b)
    sw.manual_seed(3)
    assert sw.zeros(4, 3).normal_().equal(a)
    sw.manual_seed(3)
    with row_window(2, 2):  # these are rows 2 and 3 of the global batch
        assert sw.zeros(2, 3).normal_().equal(a[2:])


def test_the_tape_and_the_memory() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(AutogradError, match=r"^cannot write in place \(uniform_\) into a leaf"):
        x.uniform_()
    with sw.no_grad():
        assert x.uniform_(5, 6).data.min() >= 5
    y = (x * 2.0).normal_()
    assert not y.requires_grad
    memory = np.zeros((3, 2), np.float32)
    sw.from_numpy(memory).T.exponential_()
    assert (memory > 0).all()


def test_arguments() -> None:
    x = sw.zeros(2)
    for call, message in (
        (lambda: x.uniform_(1, 0), "uniform_: the range must not end before it starts, got [1, 0)"),
        (lambda: x.normal_(0, -1), "normal_: the standard deviation must be at least 0, got -1"),
        (lambda: x.log_normal_(0, 0), "log_normal_: the standard deviation must be above 0, got 0"),
        (lambda: x.exponential_(0), "exponential_: the rate must be above 0, got 0"),
        (lambda: x.cauchy_(0, 0), "cauchy_: the width must be above 0, got 0"),
        (lambda: x.geometric_(1.0), "geometric_: the probability must be between 0 and 1, got 1.0"),
        (lambda: x.bernoulli_(x + 2), "bernoulli_: wanted probabilities from 0 to 1; clamp() them first"),
        (lambda: x.random_(3, 3), "random_: the range must end behind its start, got [3, 3)"),
    ):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value) == message
    with pytest.raises(DTypeError) as caught_dtype:
        sw.zeros(2, dtype=np.int64).uniform_()
    assert (
        str(caught_dtype.value)
        == "uniform_ fills floating tensors, and this is int64; cast with astype() first"
    )
