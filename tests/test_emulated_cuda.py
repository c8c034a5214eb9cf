"""The emulated device finds what a real one would do wrong without a word."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from emulated_cuda import DeviceArray, declarations, find_compiler, install, to_device, to_host

needs_compiler = pytest.mark.skipif(
    find_compiler() is None, reason="there is no C++ compiler (apt-get install g++)"
)

SOURCE = """
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
typedef long long int64;
typedef unsigned long long uint64;
typedef REAL real;

KERNEL(64) reversed(const real* __restrict__ x, real* __restrict__ y, int64 n)
{
    __shared__ real all[64];
    all[threadIdx.x] = x[threadIdx.x];
    BARRIER
    y[threadIdx.x] = all[n - 1 - threadIdx.x];
}

KERNEL(64) early(real* y, int64 n)
{
    if (threadIdx.x == n) return;
    __syncthreads();
    y[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, (real)threadIdx.x, 1);
}

KERNEL(64) exchanged(real* y)
{
    if (threadIdx.x == 40) return;
    y[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, (real)threadIdx.x, 1);
}

KERNEL(64) first_of_eight(real* y)
{
    y[threadIdx.x] = __shfl_sync(0xFFFFFFFFu, (real)threadIdx.x, 0, 8) + 100 * blockIdx.x;
}

KERNEL(64) beyond(real* y, int64 n) { y[n] = 1; }

KERNEL(32) numbers(const real* x, double a, int64 b, uint64 c, real* y)
{
    y[0] = x ? x[0] : (real)(a + b + c);
}
"""


@pytest.fixture
def cupy() -> Iterator[ModuleType]:
    with install() as module:
        yield module


def launch(
    cupy: ModuleType, name: str, *args: object, barrier: str = "__syncthreads();", size: int = 64
) -> None:
    module = cupy.RawModule(code=SOURCE.replace("BARRIER", barrier), options=("-DREAL=float",))
    module.get_function(name)((1,), (size,), args)


@needs_compiler
def test_threads_share_memory_and_wait_for_each_other(cupy: ModuleType) -> None:
    x = to_device(np.arange(64, dtype=np.float32))
    y = to_device(np.zeros(64, np.float32))
    launch(cupy, "reversed", x, y, np.int64(64))
    np.testing.assert_array_equal(to_host(y), np.arange(64)[::-1])


@needs_compiler
def test_without_a_barrier_results_are_wrong(cupy: ModuleType) -> None:
    y = to_device(np.zeros(64, np.float32))
    wrong = 0
    for shift in range(1, 6):
        x = to_device(np.arange(64, dtype=np.float32) + 100 * shift)
        launch(cupy, "reversed", x, y, np.int64(64), barrier="")
        wrong += int((to_host(y) != to_host(x)[::-1]).sum())
    assert wrong > 0


@needs_compiler
def test_shuffles_reach_the_threads_that_they_name(cupy: ModuleType) -> None:
    y = to_device(np.zeros(64, np.float32))
    launch(cupy, "early", y, np.int64(1000))
    np.testing.assert_array_equal(to_host(y), np.arange(64) ^ 1)
    launch(cupy, "first_of_eight", y)
    np.testing.assert_array_equal(to_host(y), np.arange(64) // 8 * 8)


@needs_compiler
def test_threads_that_never_come_are_an_error_and_not_a_hang(cupy: ModuleType) -> None:
    y = to_device(np.zeros(64, np.float32))
    with pytest.raises(
        AssertionError, match=r"^early, blocks \(1,\) of \(64,\) threads: some threads never came to a __syn"
    ):
        launch(cupy, "early", y, np.int64(7))
    with pytest.raises(AssertionError, match="some threads never came to a shuffle"):
        launch(cupy, "exchanged", y)
    launch(cupy, "early", y, np.int64(1000))  # it goes on
    np.testing.assert_array_equal(to_host(y), np.arange(64) ^ 1)


@needs_compiler
@pytest.mark.parametrize(
    ("place", "message"),
    [(-1, "beyond writes around y"), (4, "beyond, blocks .* memory beside an array was read or written")],
)
def test_a_write_beside_an_array_is_found(place: int, message: str, cupy: ModuleType) -> None:
    with pytest.raises(AssertionError, match=message):
        launch(cupy, "beyond", to_device(np.zeros(4, np.float32)), np.int64(place), size=1)


@needs_compiler
def test_a_read_behind_an_array_is_found(cupy: ModuleType) -> None:
    x, y = to_device(np.zeros(60, np.float32)), to_device(np.zeros(64, np.float32))
    with pytest.raises(AssertionError, match=r"reversed, .* memory beside an array was read or written"):
        launch(cupy, "reversed", x, y, np.int64(64))


@needs_compiler
def test_numbers_and_null_pointers_arrive(cupy: ModuleType) -> None:
    y = to_device(np.zeros(1, np.float32))
    launch(cupy, "numbers", np.uint64(0), np.float64(0.5), np.int64(-3), np.uint64(7), y, size=1)
    assert to_host(y).tolist() == [4.5]


def test_arguments_that_do_not_fit_are_refused(cupy: ModuleType) -> None:
    x, y = to_device(np.zeros((2, 2), np.float32)), to_device(np.zeros(1, np.float32))
    good = (x, np.float64(0.5), np.int64(1), np.uint64(2), y)
    for place, bad, message in (
        (0, to_device(np.zeros(1)), "numbers: x is float32, got float64"),
        (0, x.T, "numbers: x is not contiguous"),
        (0, np.zeros(1, np.float32), "numbers: x is an array, got <class 'numpy.ndarray'>"),
        (0, np.uint64(8), "numbers: x: only the null pointer may be a number"),
        (1, 0.5, "numbers: a is a number, got <class 'float'>"),
        (1, np.float32(0.5), "numbers: a is float64, got float32"),
        (2, np.int32(1), "numbers: b is int64, got int32"),
    ):
        with pytest.raises(AssertionError) as error:
            launch(cupy, "numbers", *good[:place], bad, *good[place + 1 :], size=1)
        assert message in str(error.value)
    with pytest.raises(AssertionError, match="numbers takes 5 arguments, got 4"):
        launch(cupy, "numbers", *good[:4], size=1)
    with pytest.raises(AssertionError, match="numbers is declared for 32 threads, got"):
        launch(cupy, "numbers", *good, size=64)
    with cupy.cuda.Device(1), pytest.raises(AssertionError, match="numbers: x is on another device"):
        launch(cupy, "numbers", *good, size=1)


def test_declarations_are_read() -> None:
    kernel = declarations(SOURCE)["numbers"]
    assert kernel.threads == 32
    assert [(p.name, p.kind, p.pointer) for p in kernel.parameters] == [
        ("x", "real", True),
        ("a", "double", False),
        ("b", "int64", False),
        ("c", "uint64", False),
        ("y", "real", True),
    ]


def test_arrays_lie_where_they_were_wanted(cupy: ModuleType) -> None:
    for dtype in (np.float32, np.float16, np.float64):
        for spare in (0, 1, 3):
            x = to_device(np.arange(5, dtype=dtype), spare)
            assert type(x) is DeviceArray
            assert x.data.ptr % 16 == spare * x.itemsize % 16
            np.testing.assert_array_equal(to_host(x), np.arange(5))
    assert np.isnan(to_host(np.empty_like(x, order="C", shape=(3,)))).all()
