"""Backends: which holds an array, which a device name means, what is said when it is not there."""

from __future__ import annotations

import builtins
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from shardwise.backend.allocator import keep_pages
from shardwise.backend.cpu import CpuBackend
from shardwise.backend.cuda import CudaBackend, is_cuda_array
from shardwise.backend.errors import ArgumentError, DataDependentShapeError, DeviceError
from shardwise.backend.select import BACKENDS, backend_of, get_backend
from shardwise.backend.shape import ShapeArray
from shardwise.backend.shape_backend import ShapeBackend


class CUDARuntimeError(RuntimeError):
    """CuPy's, as far as we use it."""


class FakeArray:
    """A CuPy array, as far as we use it."""

    device = SimpleNamespace(id=1)


def fake_cupy(count: int | str) -> ModuleType:
    """CuPy on a machine with that many devices, or with that error."""

    def get_device_count() -> int:
        if isinstance(count, str):
            raise CUDARuntimeError(count)
        return count

    cupy = ModuleType("cupy")
    used: list[int] = []
    cupy.ndarray = FakeArray
    cupy.used = used
    cupy.cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDeviceCount=get_device_count, CUDARuntimeError=CUDARuntimeError),
        Device=lambda index: SimpleNamespace(use=lambda: used.append(index)),
    )
    return cupy


Install = Callable[[int | str | None], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a fake CuPy in place; None hides CuPy."""

    def put(count: int | str | None) -> None:
        if count is None:
            monkeypatch.setitem(sys.modules, "cupy", None)
        else:
            monkeypatch.setitem(sys.modules, "cupy", fake_cupy(count))

    return put


def refused(device: str) -> str:
    with pytest.raises(DeviceError) as caught:
        get_backend(device)
    return str(caught.value)


def test_without_cupy(install: Install) -> None:
    install(None)
    assert refused("cuda") == (
        "cannot use device 'cuda': CuPy is not installed. Install it for your CUDA version (pip install "
        "'shardwise[cuda12]' or 'shardwise[cuda13]'), or use device 'cpu'."
    )
    assert get_backend("auto").name == "cpu"
    assert CudaBackend().device_count() == 0


def test_a_cupy_that_does_not_import(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def broken(name: str, *args: object, **kwargs: object) -> object:
        if name == "cupy":
            raise ImportError("libcublas.so.12: cannot open shared object file")
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(builtins, "__import__", broken)
    assert refused("cuda").startswith(
        "cannot use device 'cuda': CuPy does not import here (libcublas.so.12: cannot open shared object "
        "file). Install it for your CUDA version"
    )


def test_without_a_driver(install: Install) -> None:
    install("cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version")
    assert refused("cuda:0") == (
        "cannot use device 'cuda:0': the NVIDIA driver is missing, or older than the CUDA version that CuPy "
        "was built for (cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime "
        "version). Check that nvidia-smi runs, update the driver or install the CuPy that fits it, or use "
        "device 'cpu'."
    )


@pytest.mark.parametrize("count", [0, "cudaErrorNoDevice: no CUDA-capable device is detected"])
def test_without_a_device(install: Install, count: int | str) -> None:
    install(count)
    assert refused("cuda") == (
        "cannot use device 'cuda': CuPy and the driver are there, and no CUDA device is visible. Check "
        "nvidia-smi and CUDA_VISIBLE_DEVICES, or use device 'cpu'."
    )
    assert get_backend("auto").name == "cpu"


def test_a_cuda_that_does_not_start(install: Install) -> None:
    install("cudaErrorUnknown: unknown error")
    assert refused("cuda") == (
        "cannot use device 'cuda': CUDA does not start here (cudaErrorUnknown: unknown error). Check that "
        "nvidia-smi runs, or use device 'cpu'."
    )


def test_devices_by_number(install: Install) -> None:
    install(2)
    assert get_backend("auto").name == get_backend("cuda").name == "cuda"
    assert get_backend("cuda:1") == CudaBackend(1)
    assert get_backend("cuda").device_count() == 2
    assert refused("cuda:2") == (
        "cannot use device 'cuda:2': there is no CUDA device 2: wanted 0 to 1. Fewer ranks per host, or "
        "several ranks per device, would fit."
    )
    get_backend("cuda").set_device(1)
    assert sys.modules["cupy"].used == [1]
    with pytest.raises(DeviceError, match=r"cannot use device 'cuda:-1': there is no CUDA device -1"):
        get_backend("cuda").set_device(-1)


def test_cuda_arrays(install: Install) -> None:
    install(2)
    array = FakeArray()
    assert is_cuda_array(array)
    assert backend_of(array).name == "cuda"
    assert backend_of(array).device_of(array) == "cuda:1"
    with pytest.raises(ArgumentError, match=r"copy=False, and what is on the host must be copied"):
        CudaBackend().asarray(np.ones(2), copy=False)
    assert not is_cuda_array(np.ones(2))


@pytest.mark.parametrize("device", ["gpu", "cpu:1", "cuda:", "cuda:x", "cuda:-1", "", "CPU"])
def test_names_that_mean_nothing(device: str) -> None:
    assert refused(device) == (
        f"there is no device {device!r}: wanted 'auto', 'cpu', 'cuda', 'cuda:<number>' or 'shape'."
    )


def test_backend_of() -> None:
    assert backend_of(np.ones(2)).name == backend_of(np.float32(1)).name == "cpu"
    assert backend_of(ShapeArray(2)).name == "shape"
    with pytest.raises(DeviceError) as caught:
        backend_of([1.0])
    assert str(caught.value) == (
        "no backend holds objects of type builtins.list: wanted a NumPy or CuPy array, or a ShapeArray. "
        "Convert it with numpy.asarray."
    )


def test_the_cpu() -> None:
    cpu = get_backend("cpu")
    assert cpu == get_backend("cpu:0") == CpuBackend()
    x = np.arange(3.0)
    assert cpu.asarray(x) is x
    assert cpu.to_host(x) is x
    assert not np.shares_memory(cpu.asarray(x, copy=True), x)
    assert cpu.asarray([1, 2], np.float32).dtype == np.float32
    with pytest.raises(ArgumentError, match="copy=False, and a copy would be needed"):
        cpu.asarray(x, np.float32, copy=False)
    with pytest.raises(ValueError, match="inhomogeneous"):
        cpu.asarray([[1], [1, 2]])
    assert cpu.empty((2, 3), "f4").shape == (2, 3)
    assert (cpu.device_of(x), cpu.device_count(), cpu.available()) == ("cpu", 1, (True, ""))
    cpu.set_device(0)
    cpu.synchronize()
    with pytest.raises(DeviceError, match="there is one CPU device, number 0; got 1"):
        cpu.set_device(1)


def test_shapes() -> None:
    shapes = get_backend("shape")
    assert shapes == ShapeBackend()
    made = shapes.empty((10**9, 10**9), np.float16)
    assert isinstance(made, ShapeArray)
    assert (made.shape, made.dtype, shapes.device_of(made)) == ((10**9, 10**9), np.float16, "shape")
    for source in (np.ones((2, 3), np.int8), ShapeArray((2, 3), np.int8)):
        assert (shapes.asarray(source).shape, shapes.asarray(source).dtype) == ((2, 3), np.int8)
        assert shapes.asarray(source, np.float64).dtype == np.float64
    assert shapes.asarray([[1.0, 2.0]]).shape == (1, 2)
    with pytest.raises(DataDependentShapeError, match=r"^to_host at .* depends on the data"):
        shapes.to_host(made)
    with pytest.raises(ArgumentError, match="copy=False"):
        shapes.asarray(np.ones(2), copy=False)


def test_each_backend_has_its_name() -> None:
    assert [backend.name for backend in BACKENDS] == ["cpu", "cuda", "shape"]


IMPORT = """
import os, sys, threading
before = set(sys.modules)
class Environment(dict):
    def __getitem__(self, key): raise AssertionError(f"read {key} from the environment")
    get = __getitem__
import numpy, logging, ctypes, pkgutil, inspect, tempfile, fcntl
os.environ = Environment()
import shardwise.backend
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"numba", "llvmlite", "cupy", "mpi4py", "scipy", "torch"}, loaded
assert threading.active_count() == 1
"""


def test_importing_starts_nothing() -> None:
    run = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


PAGES = """
import resource, sys
import numpy as np
from shardwise.backend.allocator import keep_pages
def faults_of(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.ones((1024, 2048), np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
given_back = faults_of(10)
assert keep_pages() and keep_pages()
faults_of(2)
kept = faults_of(10)
print(given_back, kept)
"""


@pytest.mark.skipif(not keep_pages(), reason="the C library here is not glibc")
def test_pages_are_kept() -> None:
    run = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    given_back, kept = map(int, run.stdout.split())
    assert kept * 10 < given_back
