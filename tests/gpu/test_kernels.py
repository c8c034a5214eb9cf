"""CUDA kernels on a device, against their plain formulas in double precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from device_cases import CASES, Case, cast, results
from shardwise.backend import bernoulli, get_backend, normal, uniform
from shardwise.backend.kernels.activation.activation import gelu_forward
from shardwise.backend.kernels.kernel import plain_formulas
from shardwise.backend.kernels.optimizer.optimizer import UPDATES, Update, adam
from shardwise.backend.kernels.random.dropout import dropout_forward
from shardwise.backend.kernels.reduction.reduction import column_sum, sum_of_squares
from shardwise.backend.kernels.row.softmax import softmax_forward
from tolerance import assert_close, widened

NAMES = sorted({case.kernel.name for case in CASES.values()})
DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


def to_device(x: np.ndarray, spare: int = 0) -> Any:
    """A copy of `x` on the device, `spare` elements off a multiple of 16 bytes."""
    backend = get_backend("cuda")
    try:
        memory = backend.empty((x.size + spare,), x.dtype)
    except (TypeError, ValueError) as error:
        pytest.skip(f"this CuPy has no arrays of {x.dtype}: {error}")
    array = memory[spare:].reshape(x.shape)
    array[...] = backend.asarray(np.ascontiguousarray(x))
    return array


def to_host(x: Any) -> np.ndarray:
    return get_backend("cuda").to_host(x)


def check(case: Case, dtype: Any, spare: int) -> None:
    host = cast(case.arguments, dtype)
    with np.errstate(all="ignore"):
        wide = widened(*(x.copy() if isinstance(x, np.ndarray) else x for x in host))
        expected = results(case.kernel, wide, case.kernel.plain(*wide))
    device = tuple(to_device(x, spare) if isinstance(x, np.ndarray) else x for x in host)
    actual = results(case.kernel, device, case.kernel(*device))
    assert case.kernel.on_device is not None
    assert case.kernel.on_device.reason == ""
    for ours, theirs in zip(actual, expected, strict=True):
        if ours.dtype.kind in "iub":
            np.testing.assert_array_equal(to_host(ours), theirs)
            continue
        with np.errstate(over="ignore"):
            rounded = theirs.astype(ours.dtype).astype(np.float64)  # infinite where it is too large
        assert_close(to_host(ours), rounded, case.length if ours.itemsize > 2 else 1, case.scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_against_the_formula(name: str, dtype: Any) -> None:
    for label, case in CASES.items():
        if case.kernel.name == name:
            for spare in (0, 1):
                try:
                    check(case, dtype, spare)
                except Exception as error:
                    error.add_note(f"case {label!r}, {np.dtype(dtype)}, {spare} elements off")
                    raise


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("draw", [uniform, normal])
def test_random_numbers_are_those_of_the_cpu_bit_for_bit(draw: Any, dtype: Any) -> None:
    like = to_device(np.zeros(1))
    for offset in (0, 3, 2**33 + 1):
        ours = draw((1_000_003,), dtype, -3, 2**63, offset, like=like)
        np.testing.assert_array_equal(to_host(ours), draw((1_000_003,), dtype, -3, 2**63, offset))


def test_coins_and_masks_are_those_of_the_cpu() -> None:
    like = to_device(np.zeros(1))
    np.testing.assert_array_equal(
        to_host(bernoulli((100_001,), 0.3, 1, 2, 5, like=like)), bernoulli((100_001,), 0.3, 1, 2, 5)
    )
    x = np.random.default_rng(0).standard_normal(100_001).astype(np.float32)
    for ours, theirs in zip(
        dropout_forward(to_device(x), 0.1, 3, 4, 7), dropout_forward(x, 0.1, 3, 4, 7), strict=True
    ):
        np.testing.assert_array_equal(to_host(ours), theirs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.name)
def test_updates_of_many_parameters(update: Update, dtype: Any) -> None:
    shapes = [(), (77,), (6, 5, 4), (0,), (1 << 14,), ((1 << 20) + 5,)]
    rng = np.random.default_rng(5)
    columns = [
        [np.asarray(np.abs(rng.standard_normal(shape)) + 0.5, dtype) for shape in shapes]
        for _ in update.arrays
    ]
    numbers = [tuple(rng.uniform(0.1, 0.9, len(update.numbers)).tolist()) for _ in shapes]
    wide = [[array.astype(np.float64) for array in column] for column in columns]
    device = [[to_device(array, i % 2) for i, array in enumerate(column)] for column in columns]
    update(wide, numbers)
    update(device, numbers)
    for ours, theirs in zip(device, wide, strict=True):
        for actual, expected in zip(ours, theirs, strict=True):
            assert_close(to_host(actual), expected, scale=1.0)


def test_results_are_the_same_from_run_to_run() -> None:
    x = to_device(np.random.default_rng(1).standard_normal((5000, 300)).astype(np.float32))
    for kernel in (column_sum, sum_of_squares, softmax_forward):
        first = to_host(kernel(x))
        for _ in range(5):
            np.testing.assert_array_equal(to_host(kernel(x)), first)


def test_more_elements_than_32_bits_count() -> None:
    backend = get_backend("cuda")
    count = 2**31 + 17
    try:
        x = backend.empty((count,), np.float16)
    except Exception as error:  # the device may be small, or shared
        pytest.skip(f"no room for {count} elements: {error}")
    x[...] = 0.0
    x[-1] = 1.0
    y = gelu_forward(x)
    assert float(to_host(y[-1])) == pytest.approx(0.8413, abs=1e-3)
    assert float(to_host(sum_of_squares(y))) == pytest.approx(0.7079, abs=2e-3)


def test_kernels_and_formulas_agree_on_the_device() -> None:
    x = to_device(np.random.default_rng(2).standard_normal((64, 1000)).astype(np.float32))
    fused = to_host(softmax_forward(x))
    with plain_formulas():
        np.testing.assert_allclose(fused, to_host(softmax_forward(x)), rtol=2e-6)
    columns = [[x.copy()], [x.copy()], [x * x], [x * x]]
    again = [[array.copy() for array in column] for column in columns]
    numbers = [tuple(0.1 + 0.05 * i for i in range(len(adam.numbers)))]
    adam(columns, numbers)
    with plain_formulas():
        adam(again, numbers)
    for ours, theirs in zip(columns, again, strict=True):
        np.testing.assert_allclose(to_host(ours[0]), to_host(theirs[0]), rtol=1e-5, atol=1e-6)
