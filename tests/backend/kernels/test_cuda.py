"""CUDA kernels run on the CPU, thread by thread, against their plain formulas in double precision."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from device_cases import CASES, Case, cast, results
from emulated_cuda import (
    DeviceArray,
    compile_together,
    few_blocks,
    find_compiler,
    launches,
    to_device,
    to_host,
)
from shardwise.backend.kernels.attention import attention_cuda
from shardwise.backend.kernels.device.launch_cuda import Launcher
from shardwise.backend.kernels.device_table import DEVICE_SOURCES
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.optimizer.optimizer import UPDATES, Update
from shardwise.backend.kernels.optimizer.optimizer_cuda import update_launcher
from shardwise.backend.kernels.pointwise_table import POINTWISE_KERNELS
from tolerance import assert_close, widened

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="there is no C++ compiler (apt-get install g++)"),
    pytest.mark.usefixtures("emulated_device", "compiled_at_once"),
]

DTYPES = [np.float64, np.float32, np.float16]  # bfloat16 differs in how numbers are read and written only
NAMES = sorted({case.kernel.name for case in CASES.values()})


@pytest.fixture(scope="module")
def compiled_at_once(request: pytest.FixtureRequest) -> None:
    """Where this whole file runs: compile on all cores what one test after the other would."""
    if sum(item.path == request.path for item in request.session.items) < len(NAMES):
        return
    made = [pointwise_launcher(kernel).source for kernel in POINTWISE_KERNELS]
    updates = [update_launcher(update.formula, len(update.arrays)).source for update in UPDATES]
    groups = [*([source] for source in DEVICE_SOURCES), made[::2], made[1::2], updates]
    wanted = [
        ([source.text for source in group], group[0].options(dtype))
        for group in sorted(groups, key=len, reverse=True)
        for dtype in DTYPES
        if np.dtype(dtype).name in group[0].dtypes
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda what: compile_together(*what), wanted))


def pointwise_launcher(kernel: Kernel[..., Any]) -> Launcher:
    assert kernel.on_device is not None
    launch: Launcher = kernel.on_device.function.launch
    return launch


def check(case: Case, dtype: Any, spare: int = 0) -> None:
    """Run a case on the emulated device, its arrays so many elements off an address that 16 divides."""
    host = cast(case.arguments, dtype)
    with np.errstate(all="ignore"):
        wide = widened(*(x.copy() if isinstance(x, np.ndarray) else x for x in host))
        expected = results(case.kernel, wide, case.kernel.plain(*wide))
    device = tuple(to_device(x, spare) if isinstance(x, np.ndarray) else x for x in host)
    launches.clear()
    actual = results(case.kernel, device, case.kernel(*device))
    assert case.kernel.on_device is not None
    assert case.kernel.on_device.reason == ""
    assert launches or any(x.size == 0 for x in (*actual, *host) if isinstance(x, np.ndarray))
    for ours, theirs in zip(actual, expected, strict=True):
        assert type(ours) is DeviceArray
        if ours.dtype.kind in "iub":
            np.testing.assert_array_equal(to_host(ours), theirs)
            continue
        with np.errstate(over="ignore"):
            rounded = theirs.astype(ours.dtype).astype(np.float64)  # infinite where it is too large
        assert_close(to_host(ours), rounded, case.length if ours.itemsize > 2 else 1, case.scale)


def check_all(name: str, dtype: Any, spare: int = 0) -> None:
    for label, case in CASES.items():
        if case.kernel.name == name:
            try:
                check(case, dtype, spare)
            except Exception as error:
                error.add_note(f"case {label!r}, {np.dtype(dtype)}, {spare} elements off")
                raise


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_against_the_formula(name: str, dtype: Any) -> None:
    check_all(name, dtype)


@pytest.mark.parametrize("name", NAMES)
def test_on_arrays_that_cannot_be_read_16_bytes_at_a_time(name: str) -> None:
    check_all(name, np.float32, spare=1)
    check_all(name, np.float16, spare=3)


@pytest.mark.parametrize("name", NAMES)
def test_few_blocks_do_the_work_of_many(name: str) -> None:
    if name != "sum_of_squares":  # where every block makes a sum
        with few_blocks(2):
            check_all(name, np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.name)
def test_updates_of_many_parameters_in_one_launch(update: Update, dtype: Any) -> None:
    shapes = [(), (77,), (6, 5, 4), (0,), (1 << 14,), ((1 << 14) + 5,)]
    rng = np.random.default_rng(5)
    columns = [
        [np.asarray(np.abs(rng.standard_normal(shape)) + 0.5, dtype) for shape in shapes]
        for _ in update.arrays
    ]
    numbers = [tuple(rng.uniform(0.1, 0.9, len(update.numbers)).tolist()) for _ in shapes]
    numbers[1] = numbers[2]
    numbers[3] = tuple(
        0.0 if name in ("l2", "decay") else n for name, n in zip(update.numbers, numbers[3], strict=True)
    )
    wide = [[array.astype(np.float64) for array in column] for column in columns]
    device = [[to_device(array, i % 2) for i, array in enumerate(column)] for column in columns]
    update(wide, numbers)
    launches.clear()
    update(device, numbers)
    assert [launch.name for launch in launches] == ["update_each"]
    for ours, theirs in zip(device, wide, strict=True):
        for actual, expected in zip(ours, theirs, strict=True):
            assert_close(to_host(actual), expected, scale=1.0)


def test_attention_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_cuda, "_MOST_SCORES", 100)
    for name in ("attention_forward", "attention_backward"):
        check_all(name, np.float64)
        assert len(launches) > 1
