"""The part of CuPy that launches CUDA code, over NumPy's arrays; strict where CuPy trusts the caller."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from emulated_cuda.compiler import compiled, find_compiler
from emulated_cuda.declaration import Declaration, declarations
from shardwise.backend.cpu import CpuBackend

__all__ = [
    "DeviceArray",
    "Launch",
    "RawModule",
    "few_blocks",
    "install",
    "launches",
    "to_device",
    "to_host",
]

_TYPES: dict[str, np.dtype[Any]] = {
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "int64": np.dtype(np.int64),
    "uint64": np.dtype(np.uint64),
    "uint32": np.dtype(np.uint32),
    "bool": np.dtype(np.bool_),
}
_CURRENT: list[int] = [0]
_GUARD, _UNTOUCHED = 1024, 0xFF
_LIBC = ctypes.CDLL(None)


class Device:
    """A device by its number; a ``with`` block makes it the current one."""

    def __init__(self, index: int | None = None) -> None:
        self.id = _CURRENT[-1] if index is None else index

    def __enter__(self) -> Device:
        _CURRENT.append(self.id)
        return self

    def __exit__(self, *error: object) -> None:
        _CURRENT.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


class Memory(np.ndarray):
    """Bytes, of which those from `start` to `stop` are an array, and all others are to stay as they are."""

    start: int
    stop: int

    def is_sound(self) -> bool:
        return bool((self[: self.start] == _UNTOUCHED).all() and (self[self.stop :] == _UNTOUCHED).all())


def _allocated(shape: tuple[int, ...], dtype: np.dtype[Any], spare: int = 0) -> DeviceArray:
    """An array of NaN (or -1) between such values, `spare` elements off an address that 16 divides.

    It ends at the end of a page, or as near as its place allows, and the next page is nobody's.
    """
    size, shift = int(np.prod(shape)) * dtype.itemsize, spare * dtype.itemsize % 16
    pages = -(-(size + _GUARD + 32) // mmap.PAGESIZE)
    block = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    memory = np.frombuffer(block, np.uint8, pages * mmap.PAGESIZE).view(Memory)
    memory[:] = _UNTOUCHED
    _LIBC.mprotect(ctypes.c_void_p(memory.ctypes.data + memory.size), mmap.PAGESIZE, 0)
    memory.start = (memory.size - size - shift) // 16 * 16 + shift
    memory.stop = memory.start + size
    array: DeviceArray = memory[memory.start : memory.stop].view(DeviceArray).view(dtype).reshape(shape)
    array._device = _CURRENT[-1]
    return array


def _memory_of(array: object) -> Memory | None:
    while isinstance(array, np.ndarray) and not isinstance(array, Memory):
        array = array.base
    while isinstance(array, Memory) and isinstance(array.base, Memory):
        array = array.base
    return array if isinstance(array, Memory) else None


class DeviceArray(np.ndarray):
    """An array that counts as CuPy's; new ones are on the device that was current."""

    _device: int

    def __array_finalize__(self, source: object) -> None:
        own = isinstance(source, DeviceArray) and self.base is not None
        self._device = source._device if own else _CURRENT[-1]  # type: ignore[union-attr]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in (np.empty_like, np.zeros_like) and kwargs.get("order") == "C":
            dtype = args[1] if len(args) > 1 else kwargs.get("dtype")
            array = _allocated(kwargs.get("shape", args[0].shape), np.dtype(dtype or args[0].dtype))
            if function is np.zeros_like:
                array[...] = 0
            return array
        result = super().__array_function__(function, types, args, kwargs)
        # Some functions of NumPy drop subclasses, where CuPy's give what they were given.
        return result.view(DeviceArray) if type(result) is np.ndarray else result

    @property
    def device(self) -> Device:  # type: ignore[override]
        return Device(self._device)

    @property
    def data(self) -> SimpleNamespace:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)


def to_device(x: np.ndarray, spare: int = 0) -> DeviceArray:
    """A copy of `x` that counts as CuPy's, with NaN (or -1) around it.

    Parameters
    ----------
    x : ndarray
        Of any strides, which the copy has too.
    spare : int, default 0
        By how many elements the copy is off an address that 16 divides.
    """
    if not x.flags.c_contiguous:
        return x.copy(order="K").view(DeviceArray)
    array = _allocated(x.shape, x.dtype, spare)
    array[...] = x
    return array


def to_host(x: np.ndarray) -> np.ndarray:
    """A NumPy array with the values of `x`."""
    return np.array(x, subok=False)


class Launch(NamedTuple):
    """A kernel by its name, the type of its elements, and its sizes."""

    name: str
    real: str
    grid: tuple[int, ...]
    block: tuple[int, ...]


class RawModule:
    """CUDA code, whose kernels run on the CPU if there is a C++ compiler."""

    def __init__(self, code: str, *, options: tuple[str, ...] = ()) -> None:
        assert type(code) is str
        assert type(options) is tuple
        [self.real] = [option.removeprefix("-DREAL=") for option in options if option.startswith("-DREAL=")]
        self.code, self.options = code, options
        self.kernels = declarations(code)

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(self, self.kernels[name])


launches: list[Launch] = []
"""Of all kernels, in order; the tests look at it and clear it."""


_most_blocks: ContextVar[int] = ContextVar("most_blocks", default=2**31)


@contextmanager
def few_blocks(most: int) -> Iterator[None]:
    """Launch at most so many blocks per dim inside the ``with`` block: kernels go on from there."""
    token = _most_blocks.set(most)
    try:
        yield
    finally:
        _most_blocks.reset(token)


class RawKernel:
    """One kernel, which takes exactly what it declares."""

    def __init__(self, module: RawModule, declaration: Declaration) -> None:
        self._module = module
        self._declaration = declaration

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[object, ...]) -> None:
        name, threads = self._declaration.name, self._declaration.threads
        for size, most in ((grid, (2**31 - 1, 65535, 65535)), (block, (1024, 1024, 64))):
            assert type(size) is tuple
            assert 1 <= len(size) <= 3
            assert all(type(n) is int and 1 <= n <= limit for n, limit in zip(size, most, strict=False)), size
        assert int(np.prod(block)) <= threads, f"{name} is declared for {threads} threads, got {block}"
        assert type(args) is tuple
        parameters = self._declaration.parameters
        assert len(args) == len(parameters), f"{name} takes {len(parameters)} arguments, got {len(args)}"
        values = [self._checked(p.name, p.kind, p.pointer, a) for p, a in zip(parameters, args, strict=True)]
        launches.append(Launch(name, self._module.real, grid, block))
        if find_compiler() is not None:
            grid = tuple(min(n, _most_blocks.get()) for n in grid)
            compiled(self._module.code, self._module.options).run(name, grid, block, tuple(values))
            for parameter, value in zip(parameters, args, strict=True):
                memory = _memory_of(value)
                assert memory is None or memory.is_sound(), f"{name} writes around {parameter.name}"

    def _checked(self, name: str, kind: str, pointer: bool, value: object) -> float | int:
        where = f"{self._declaration.name}: {name}"
        wide = "double" if self._module.real == "double" else "float"
        dtype = _TYPES[{"real": self._module.real, "wide": wide}.get(kind, kind)]
        if not pointer:
            assert isinstance(value, np.generic), f"{where} is a number, got {type(value)}"
            assert value.dtype == dtype, f"{where} is {dtype}, got {value.dtype}"
            return value.item()  # type: ignore[no-any-return]
        if isinstance(value, np.uint64):
            assert value == 0, f"{where}: only the null pointer may be a number"
            return 0
        assert type(value) is DeviceArray, f"{where} is an array, got {type(value)}"
        assert value.dtype == dtype, f"{where} is {dtype}, got {value.dtype}"
        assert value.flags.c_contiguous, f"{where} is not contiguous"
        assert value._device == _CURRENT[-1], f"{where} is on another device"
        return int(value.data.ptr)


class CUDARuntimeError(RuntimeError):
    """What the driver complains of."""


def _module() -> ModuleType:
    """The names of CuPy that the package uses, besides those that NumPy's functions stand for."""

    def array(obj: object, dtype: object = None, copy: bool = True) -> DeviceArray:
        return obj if type(obj) is DeviceArray and not copy else to_device(np.asarray(obj, dtype))  # type: ignore[arg-type]

    def asarray(obj: object, dtype: object = None) -> DeviceArray:
        if type(obj) is DeviceArray:
            return obj.astype(dtype, copy=False) if dtype is not None else obj  # type: ignore[arg-type]
        return array(obj, dtype)

    stream = SimpleNamespace(synchronize=lambda: None)
    names = {
        "ndarray": DeviceArray,
        "RawModule": RawModule,
        "array": array,
        "asarray": asarray,
        "asnumpy": to_host,
        "empty": lambda shape, dtype: _allocated(tuple(np.atleast_1d(shape)), np.dtype(dtype)).reshape(shape),
        "zeros": lambda shape, dtype: to_device(np.zeros(shape, dtype)),
        "cuda": SimpleNamespace(
            Device=Device,
            get_current_stream=lambda: stream,
            runtime=SimpleNamespace(getDeviceCount=lambda: 4, CUDARuntimeError=CUDARuntimeError),
        ),
    }
    module = ModuleType("cupy")
    vars(module).update(names)
    return module


@contextmanager
def install() -> Iterator[ModuleType]:
    """Let this be CuPy inside the ``with`` block."""
    module = _module()
    before, owns = sys.modules.get("cupy"), CpuBackend.owns
    sys.modules["cupy"] = module
    # CuPy's arrays are not NumPy's, as those of the double are.
    CpuBackend.owns = lambda self, array: type(array) is not DeviceArray and owns(self, array)  # type: ignore[method-assign]
    try:
        yield module
    finally:
        CpuBackend.owns = owns  # type: ignore[method-assign]
        if before is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = before
