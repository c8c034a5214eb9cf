"""What is said to CuPy: every name and argument exists in the CuPy that is installed. Needs no device."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from operator import attrgetter
from types import ModuleType

import numpy as np
import pytest

from house.floors import THIRD_PARTY, matches
from house.source import Source, read_tree
from shardwise.backend.cuda import CudaBackend, is_cuda_array

ROOTS = ("cupy", "cupyx", "cupy_backends")
FILES = [source for source in read_tree() if matches(source.path, THIRD_PARTY["cupy"])]


@pytest.fixture(scope="module")
def cupy() -> ModuleType:
    return pytest.importorskip("cupy", reason="CuPy is not installed (pip install 'shardwise[nvrtc]')")  # type: ignore[no-any-return]


def names_in(source: Source) -> Iterator[str]:
    """Every dotted name of CuPy that a file uses: ``cupy.cuda.Device``."""
    inner = {id(node.value) for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            parts, root = [node.attr], node.value
            while isinstance(root, ast.Attribute):
                parts.append(root.attr)
                root = root.value
            if isinstance(root, ast.Name) and root.id in ROOTS:
                yield ".".join([root.id, *reversed(parts)])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ROOTS:
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_the_reader_finds_names() -> None:
    text = (
        "import cupy\nx = cupy.cuda.Device(0).id\ndef f():\n    from cupyx.scipy import special\n    y.cupy\n"
    )
    assert sorted(names_in(Source("backend/x_cuda.py", text))) == ["cupy.cuda.Device", "cupyx.scipy.special"]
    assert {"cupy.RawModule", "cupy.asarray"} <= {name for source in FILES for name in names_in(source)}


def is_module(name: str) -> bool:
    """Whether it is a module that its package does not import by itself."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("source", FILES, ids=lambda source: source.path)
def test_every_name_exists(source: Source, cupy: ModuleType) -> None:
    missing = []
    for name in sorted(set(names_in(source))):
        module, rest = name.split(".")[0], name.partition(".")[2]
        for part in name.split(".")[1:-1]:
            try:
                module = importlib.import_module(f"{module}.{part}").__name__
            except ImportError:
                break
            rest = rest.partition(".")[2]
        if not hasattr_deep(importlib.import_module(module), rest) and not is_module(name):
            missing.append(name)
    assert missing == []


def hasattr_deep(module: ModuleType, name: str) -> bool:
    try:
        attrgetter(name)(module)
    except AttributeError:
        return False
    return True


def test_arguments_that_are_given_by_name_exist(cupy: ModuleType) -> None:
    for function in (cupy.empty_like, cupy.zeros_like):
        assert {"dtype", "order", "shape"} <= set(inspect.signature(function).parameters)
    assert {"dtype", "copy"} <= set(inspect.signature(cupy.array).parameters)
    assert {"order"} <= set(
        str(cupy.ndarray.copy.__doc__ or "order").replace("(", " ").replace("=", " ").split()
    )
    for word in ("code", "options"):
        assert word in (cupy.RawModule.__doc__ or "")
    assert "(self, grid, block, args" in (cupy.RawKernel.__call__.__doc__ or "")
    for name in ("device", "data", "flags", "dtype", "shape", "itemsize", "__cuda_array_interface__"):
        assert hasattr(cupy.ndarray, name)


def test_a_machine_without_a_device_says_why(cupy: ModuleType) -> None:
    usable, reason = CudaBackend().available()
    assert usable or "device 'cpu'" in reason
    assert not is_cuda_array(np.ones(3))
