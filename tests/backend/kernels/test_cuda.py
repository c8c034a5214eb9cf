"""CUDA kernels run on the CPU, thread by thread, against their plain formulas in double precision."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from device_cases import CASES, Case, cast, results
from emulated_cuda import DeviceArray, compiled, find_compiler, launches, to_device, to_host
from shardwise.backend.kernels.device_table import DEVICE_SOURCES
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
    wanted = [
        (source.text, source.options(dtype))
        for source in DEVICE_SOURCES
        for dtype in DTYPES
        if np.dtype(dtype).name in source.dtypes
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda what: compiled(*what), wanted))


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
    assert launches or not (actual[0].size and device[0].size)
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
