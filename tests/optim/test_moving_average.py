"""The running average of parameters against its closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.errors import ArgumentError, ModuleError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "bfloat16"])
@pytest.mark.parametrize("counted", [False, True])
def test_the_average_is_a_weighted_sum_of_all_values(dtype: str, counted: bool) -> None:
    values = np.random.default_rng(0).standard_normal((6, 3, 4))
    values = values + 1j * values[::-1] if dtype == "complex128" else values
    p = nn.Parameter(sw.tensor(values[0], dtype=dtype))
    average = optim.ExponentialMovingAverage([p], 0.7, counted)
    expected = p.data.astype(complex)
    for n in range(1, 6):
        p.data[...] = values[n].astype(p.dtype)
        average.update()
        decay = min(0.7, (1 + n) / (10 + n)) if counted else 0.7
        expected = decay * expected + (1 - decay) * p.data.astype(complex)
    [ours] = average.averages
    assert ours.dtype == ("float32" if dtype == "bfloat16" else dtype)
    np.testing.assert_allclose(ours, expected, rtol=1e-12 if dtype in ("float64", "complex128") else 1e-5)


def test_parameters_are_exchanged_for_a_while() -> None:
    p = nn.Parameter(np.zeros(2))
    place, average = p.data, optim.ExponentialMovingAverage([p], 0.5)
    p.data[...] = 4.0
    average.update()
    with average.average_parameters():
        assert p.tolist() == [2.0, 2.0]
    assert p.tolist() == [4.0, 4.0]
    with pytest.raises(KeyError), average.average_parameters():
        {}["an error inside"]
    assert p.tolist() == [4.0, 4.0]
    other = nn.Parameter(np.zeros(2, np.float32))
    average.copy_to([other])
    assert other.tolist() == [2.0, 2.0]
    average.copy_to()
    assert p.tolist() == [2.0, 2.0]
    assert p.data is place


def test_an_exchange_between_forward_and_backward_is_caught() -> None:
    p = nn.Parameter(np.ones(2))
    average = optim.ExponentialMovingAverage([p])
    loss = (p * p).sum()
    average.copy_to()
    with pytest.raises(sw.errors.AutogradError, match="was written in place"):
        loss.backward()


def test_a_saved_average_continues() -> None:
    p, q = nn.Parameter(np.ones(3)), nn.Parameter(np.ones(3))
    first = optim.ExponentialMovingAverage([p], 0.9, use_num_updates=True)
    p.data[...] = q.data[...] = 2.0
    first.update()
    second = optim.ExponentialMovingAverage([q], 0.5)
    second.load_state_dict(first.state_dict())
    assert not np.shares_memory(first.averages[0], second.averages[0])
    first.update()
    second.update()
    np.testing.assert_array_equal(first.averages[0], second.averages[0])
    assert second.state_dict()["num_updates"] == 2


def test_refused() -> None:
    p = nn.Parameter(np.ones(3))
    make = optim.ExponentialMovingAverage
    assert message(ArgumentError, lambda: make([p], 1.5)) == (
        "ExponentialMovingAverage needs decay between 0 and 1, got 1.5"
    )
    assert message(ModuleError, lambda: make([3])) == (
        "parameter 0 of ExponentialMovingAverage is a int, not a Tensor"
    )
    average = make([p])
    assert message(ModuleError, lambda: average.copy_to([nn.Parameter(np.ones(2))])) == (
        "ExponentialMovingAverage: the parameters have shapes [(2,)]; wanted [(3,)]"
    )
    state = make([p, p]).state_dict()
    assert message(ModuleError, lambda: average.load_state_dict(state)) == (
        "ExponentialMovingAverage: the saved averages have shapes [(3,), (3,)]; wanted [(3,)]"
    )
