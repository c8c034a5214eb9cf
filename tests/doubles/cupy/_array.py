"""CuPy's array: no array of NumPy's, and never turned into one unasked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from cupy._engine import Fault
from cupy._launch import FUNCTIONS, VIEWS, check_dtype, effect, launch, launch_into, new, read
from cupy._memory import Block
from cupy._stream import Device

__all__ = ["ndarray"]

_NAMES = {getattr(np, name): name for name in FUNCTIONS} | {getattr(np, name): name for name in VIEWS}
_MODULES = ("linalg", "fft")


class _Flags:
    """Those that CuPy's arrays have."""

    def __init__(self, memory: np.ndarray) -> None:
        self.c_contiguous = memory.flags.c_contiguous
        self.f_contiguous = memory.flags.f_contiguous
        self.owndata = memory.base is None
        self.forc = memory.flags.forc


class ndarray:
    """An array in the memory of a device."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("__weakref__", "_device", "base", "block", "memory")
    memory: np.ndarray
    block: Block

    def __init__(self, shape: Any, dtype: Any = float) -> None:
        fresh = new(shape, dtype)
        self.memory, self.block, self._device = fresh.memory, fresh.block, fresh._device
        self.base = None

    @classmethod
    def of(cls, memory: np.ndarray, block: Block, base: object = True) -> ndarray:
        self = cls.__new__(cls)
        self.memory, self.block, self._device, self.base = memory, block, block.device, base
        return self

    # ---- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.memory.dtype

    @property
    def ndim(self) -> int:
        return self.memory.ndim

    @property
    def size(self) -> int:
        return self.memory.size

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    @property
    def itemsize(self) -> int:
        return self.memory.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return self.memory.strides

    @property
    def flags(self) -> _Flags:
        return _Flags(self.memory)

    @property
    def device(self) -> Device:
        return Device(self._device)

    @property
    def data(self) -> SimpleNamespace:
        ptr = int(self.memory.ctypes.data) if self.size else 0
        return SimpleNamespace(ptr=ptr, mem=self.block, device=self.device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "version": 3,
            "strides": None if self.memory.flags.c_contiguous else self.strides,
            "data": (self.data.ptr, False),
            "stream": 1,
        }

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            raise TypeError(f"CuPy has no {ufunc.__name__}.{method}")
        out = kwargs.pop("out", None)
        if any(isinstance(each, np.ndarray) for each in args):
            return NotImplemented
        if out is None:
            return launch(ufunc, args, kwargs)
        [target] = out
        if not isinstance(target, ndarray):
            return NotImplemented
        return launch_into(target, ufunc, args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return apply(function, args, kwargs)

    # ---- to the host

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        if stream is not None or out is not None or not blocking:
            raise Fault("the double reads arrays on the current stream only")
        with Device(self._device):
            return read(self)

    def item(self) -> Any:
        return self.get().item()

    def tolist(self) -> Any:
        return self.get().tolist()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __index__(self) -> int:
        return int(self.get().__index__())

    def __len__(self) -> int:
        return len(self.memory)

    def __repr__(self) -> str:
        return f"double of {self.get()!r}"

    # ---- parts

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(each, np.ndarray) and each.ndim for each in keys):
            raise TypeError("an array of the host as index into one of a device")
        if any(isinstance(each, ndarray) and each.dtype == bool for each in keys):  # CuPy counts first
            key = tuple(each.get() if isinstance(each, ndarray) else each for each in keys)
            return launch(lambda x: x[key], (self,), {})
        if any(isinstance(each, ndarray | list) for each in keys):
            return launch(lambda x, *k: x[k], (self, *keys), {})
        return ndarray.of(self.memory[key if isinstance(key, tuple) else (key,)].view(), self.block)

    def __setitem__(self, key: Any, value: Any) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("Non-scalar numpy.ndarray cannot be used for fill")
        arrays = [each for each in (self, *keys, value) if isinstance(each, ndarray)]
        inside = tuple(each.memory if isinstance(each, ndarray) else each for each in keys)
        given, target = value.memory if isinstance(value, ndarray) else value, self.memory
        if not any(isinstance(each, ndarray) for each in keys):
            part = target[inside]
            np.broadcast_shapes(np.shape(given), part.shape)
            if len(np.shape(given)) <= part.ndim:
                np.broadcast_to(np.zeros(np.shape(given), np.bool_), part.shape)

        effect(arrays, lambda: target.__setitem__(inside, given))

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self.memory)))

    # ---- methods

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> Any:
        dtype = check_dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        return launch(lambda x: x.astype(dtype), (self,), {})

    def view(self, dtype: Any = None) -> Any:
        return ndarray.of(
            self.memory.view() if dtype is None else self.memory.view(check_dtype(dtype)), self.block
        )

    def copy(self, order: str = "C") -> Any:
        return launch(lambda x: x.copy(order="C"), (self,), {})

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        wanted = shape[0] if len(shape) == 1 else shape
        return launch(lambda x: x.reshape(wanted), (self,), {}, views=True)

    def transpose(self, *axes: Any) -> Any:
        wanted = axes[0] if len(axes) == 1 else (axes or None)
        return launch(lambda x: np.transpose(x, wanted), (self,), {}, views=True)

    def fill(self, value: Any) -> None:
        target, given = self.memory, value.memory if isinstance(value, ndarray) else value
        effect([self], lambda: target.fill(given))

    @property
    def T(self) -> Any:
        return self.transpose()

    @property
    def real(self) -> Any:
        return launch(np.real, (self,), {}, views=True)

    @property
    def imag(self) -> Any:
        return launch(np.imag, (self,), {}, views=True)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value


def apply(function: Any, args: Any, kwargs: Any) -> Any:
    """Call what CuPy has under the name of a function of NumPy's."""
    name = _NAMES.get(function) or _nested(function)
    if name is None:
        raise TypeError(f"the double has no {function.__module__}.{function.__name__}")
    kwargs = dict(kwargs)
    like, out = kwargs.pop("like", None), kwargs.pop("out", None)
    if name in VIEWS:
        return launch(function, args, kwargs, views=True)
    if name in (
        "may_share_memory",
        "shares_memory",
        "ndim",
        "shape",
        "size",
        "result_type",
        "iscomplexobj",
        "can_cast",
    ):
        return function(*(each.memory if isinstance(each, ndarray) else each for each in args), **kwargs)
    if name == "copyto":
        dst, src = args[:2]
        source = src.memory if isinstance(src, ndarray) else src
        if isinstance(src, np.ndarray) or not isinstance(dst, ndarray):
            raise TypeError("copyto between host and device")
        target, casting = dst.memory, kwargs.get("casting", "same_kind")
        np.broadcast_to(np.zeros(np.shape(source), np.bool_), target.shape)
        return effect(
            [each for each in (dst, src) if isinstance(each, ndarray)],
            lambda: np.copyto(target, source, casting),
        )
    if name in ("empty_like", "zeros_like", "ones_like", "full_like"):
        return _alike(name, *args, **kwargs)
    if name in ("allclose", "array_equal", "nonzero"):
        found = function(*(each.get() if isinstance(each, ndarray) else each for each in args), **kwargs)
        return tuple(map(upload, found)) if isinstance(found, tuple) else found
    if like is not None:
        return upload(function(*args, **kwargs))
    return launch(function, args, kwargs) if out is None else launch_into(out, function, args, kwargs)


def _alike(name: str, x: Any, *args: Any, **kwargs: Any) -> Any:
    value = {"zeros_like": 0, "ones_like": 1}.get(name)
    given = list(args)
    if name == "full_like":
        value = given.pop(0) if given else kwargs.pop("fill_value")
    dtype = given[0] if given else kwargs.get("dtype")
    shape = kwargs.get("shape")
    array = new(x.shape if shape is None else shape, x.dtype if dtype is None else dtype)
    if value is not None:
        array.fill(value)
    return array


def upload(host: Any, dtype: Any = None) -> ndarray:
    """Copy from the host; as from pageable memory, it has been read when this returns."""
    values = np.array(host, dtype=dtype, order="C")
    array: ndarray = new(values.shape, values.dtype)
    target = array.memory
    effect([array], lambda: np.copyto(target, values))
    return array


def _nested(function: Any) -> str | None:
    for module in _MODULES:
        if getattr(getattr(np, module), function.__name__, None) is function:
            return f"{module}.{function.__name__}"
    return None


def _operator(ufunc: np.ufunc, swapped: bool = False, in_place: bool = False) -> Any:
    def operate(self: ndarray, other: Any) -> Any:
        if (isinstance(other, np.ndarray) and other.ndim) or not isinstance(
            other, ndarray | np.generic | np.ndarray | bool | int | float | complex
        ):
            return NotImplemented
        if isinstance(other, np.ndarray):
            raise TypeError(f"Unsupported type {type(other)}")
        args = (other, self) if swapped else (self, other)
        return launch_into(self, ufunc, args, {}) if in_place else launch(ufunc, args, {})

    return operate


def _method(name: str) -> Any:
    function = getattr(np, name)
    return lambda self, *args, **kwargs: apply(function, (self, *args), kwargs)


_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_METHODS = (
    *("sum", "prod", "mean", "var", "max", "min", "all", "any", "argmax", "argmin", "cumsum", "take", "dot"),
    *("repeat", "clip", "argsort", "round", "ravel", "squeeze", "swapaxes", "diagonal"),
)

for _name, _ufunc in _BINARY.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
    setattr(ndarray, f"__r{_name}__", _operator(_ufunc, swapped=True))
    setattr(ndarray, f"__i{_name}__", _operator(_ufunc, in_place=True))
for _name, _ufunc in _COMPARISONS.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
for _name, _ufunc in _UNARY.items():
    setattr(ndarray, f"__{_name}__", lambda self, ufunc=_ufunc: launch(ufunc, (self,), {}))
for _name in _METHODS:
    setattr(ndarray, _name, _method(_name))
