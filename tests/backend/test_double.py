"""The double has nothing that CuPy and NCCL have not, and all of it alike. Needs CuPy, and no device."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import pytest

from doubles import installed

CLASSES = {
    "cuda.Device": ("use", "synchronize", "pci_bus_id", "compute_capability", "mem_info"),
    "cuda.Stream": ("use", "synchronize", "record", "wait_event", "done"),
    "cuda.Event": ("record", "synchronize", "done"),
    "cuda.nccl.NcclCommunicator": (
        *("allReduce", "allGather", "reduce", "reduceScatter", "broadcast", "bcast", "send", "recv"),
        *("abort", "destroy", "check_async_error", "comm", "device_id", "rank_id", "size"),
    ),
    "ndarray": (
        *("astype", "view", "reshape", "copy", "transpose", "fill", "get", "item", "tolist", "T", "real"),
        *("imag", "base", "data", "device", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size"),
        *("strides", "sum", "prod", "mean", "max", "min", "ravel", "squeeze", "__cuda_array_interface__"),
    ),
}
FUNCTIONS = (
    *("array", "asarray", "asnumpy", "empty", "zeros", "ones", "RawModule", "cuda.alloc_pinned_memory"),
    *("cuda.get_current_stream", "cuda.runtime.memcpyAsync", "cuda.runtime.getDeviceCount"),
    *("cuda.runtime.getDevice", "cuda.runtime.getDeviceProperties", "cuda.runtime.CUDARuntimeError"),
    *("cuda.runtime.memcpyHostToDevice", "cuda.runtime.memcpyDeviceToHost", "cuda.runtime.runtimeGetVersion"),
    *("cuda.nccl.get_version", "cuda.nccl.get_build_version", "cuda.nccl.get_unique_id"),
    *("cuda.nccl.groupStart", "cuda.nccl.groupEnd", "cuda.nccl.NcclError", "cuda.nccl.available"),
)


@pytest.fixture(scope="module")
def cupy() -> ModuleType:
    return pytest.importorskip("cupy", reason="CuPy is not installed (pip install 'shardwise[nvrtc]')")  # type: ignore[no-any-return]


@pytest.fixture
def nccl(cupy: ModuleType) -> ModuleType:
    from cupy.cuda import nccl

    if not nccl.available:
        pytest.skip("NCCL is not installed (pip install 'shardwise[nvrtc]')")
    return nccl  # type: ignore[no-any-return]


def found(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def parameters(function: Any) -> list[str] | None:
    """Names of the parameters, from the signature or from the first line that Cython writes."""
    try:
        return [name for name in inspect.signature(function).parameters if name != "self"]
    except (ValueError, TypeError):
        line = re.match(r"[\w.]+\((.*)\)", (function.__doc__ or "").strip())
        if line is None:
            return None
        words = [part.split("=")[0].split()[-1] for part in line.group(1).split(",") if part.strip()]
        return [word for word in words if word != "self"]


@pytest.mark.parametrize("path", FUNCTIONS)
def test_functions_are_there(path: str, cupy: ModuleType, nccl: ModuleType) -> None:
    real = found(cupy, path)
    with installed() as double:
        assert callable(found(double, path)) == callable(real)


@pytest.mark.parametrize("path", CLASSES)
def test_classes_have_the_methods(path: str, cupy: ModuleType, nccl: ModuleType) -> None:
    real = found(cupy, path)
    with installed() as double:
        ours = found(double, path)
        for name in CLASSES[path]:
            assert hasattr(real, name), name
            assert hasattr(ours, name), name


def test_what_moves_takes_the_same_arguments(cupy: ModuleType, nccl: ModuleType) -> None:
    real = nccl.NcclCommunicator
    with installed() as double:
        ours = double.cuda.nccl.NcclCommunicator
    for name in CLASSES["cuda.nccl.NcclCommunicator"][:8]:
        assert parameters(getattr(ours, name)) == parameters(getattr(real, name)), name
    # How one is made is in the first line of the class.
    assert (real.__doc__ or "").startswith("NcclCommunicator(int ndev, bytes commId, int rank")
    assert parameters(ours) == ["ndev", "commId", "rank", "config"]
    assert parameters(double.cuda.runtime.memcpyAsync) == parameters(cupy.cuda.runtime.memcpyAsync)


def test_constants_are_the_same(nccl: ModuleType) -> None:
    with installed() as double:
        ours = double.cuda.nccl
    names = [name for name in dir(ours) if name.startswith("NCCL_")]
    assert len(names) > 15
    for name in names:
        assert getattr(ours, name) == getattr(nccl, name), name
    from cupy.cuda import runtime

    assert double.cuda.runtime.memcpyHostToDevice == runtime.memcpyHostToDevice
    assert double.cuda.runtime.memcpyDeviceToHost == runtime.memcpyDeviceToHost


def test_the_rules_use_the_codes(nccl: ModuleType) -> None:
    from shardwise.collectives.device.nccl_rule import CODES, OPS

    named = {"int8": "INT8", "uint8": "UINT8", "int32": "INT32", "uint32": "UINT32", "int64": "INT64"}
    named |= {"uint64": "UINT64", "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64"}
    named |= {"bfloat16": "BFLOAT16"}
    assert {dtype.name: code for dtype, code in CODES.items()} == {
        name: getattr(nccl, f"NCCL_{word}") for name, word in named.items()
    }
    assert {op: getattr(nccl, f"NCCL_{op.upper()}") for op in OPS} == OPS


def test_an_identity_and_errors(nccl: ModuleType) -> None:
    identity = nccl.get_unique_id()
    assert type(identity) is bytes
    assert len(identity) == 128
    with installed() as double:
        ours = double.cuda.nccl
        assert type(ours.get_unique_id()) is bytes
        for status in range(1, 7):
            assert str(ours.NcclError(status)).split(":")[0] == str(nccl.NcclError(status)).split(":")[0]
        for module in (ours, nccl):
            with pytest.raises(KeyError):
                module.NcclError(7)


def test_the_functions_that_the_double_serves_are_cupys(cupy: ModuleType) -> None:
    with installed():
        from cupy._launch import FUNCTIONS as served
        from cupy._launch import VIEWS
    missing = [name for name in (*served, *VIEWS) if not hasattr(cupy, name)]
    assert not missing
