"""NumPy's functions on device arrays: what they make is known at once, and filled by the stream."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
from cupy._engine import ENGINE, Fault
from cupy._memory import allocate
from cupy._stream import Device, current_queue

__all__ = ["FUNCTIONS", "VIEWS", "check_dtype", "launch", "launch_into", "new", "read"]

# Named as in NumPy, with a result or an effect that CuPy's function of the same name has too.
FUNCTIONS = (
    *("sum", "prod", "mean", "var", "std", "amax", "amin", "max", "min", "all", "any", "argmax", "argmin"),
    *("cumsum", "cumprod", "count_nonzero", "concatenate", "stack", "flip", "roll", "repeat", "tile", "pad"),
    *(
        "where",
        "take",
        "take_along_axis",
        "clip",
        "tril",
        "triu",
        "sort",
        "argsort",
        "partition",
        "searchsorted",
    ),
    *("zeros_like", "ones_like", "full_like", "empty_like", "round", "isin", "einsum", "tensordot", "outer"),
    *(
        "copyto",
        "ascontiguousarray",
        "may_share_memory",
        "shares_memory",
        "diff",
        "dot",
        "isclose",
        "allclose",
    ),
    *(
        "array_equal",
        "nonzero",
        "result_type",
        "ndim",
        "shape",
        "size",
        "iscomplexobj",
        "can_cast",
        "packbits",
    ),
    *("vstack", "hstack", "full", "zeros", "ones", "empty", "arange", "eye"),
)
VIEWS = (
    *("reshape", "ravel", "transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze", "broadcast_to"),
    *("split", "array_split", "diagonal", "real", "imag", "atleast_1d", "rollaxis"),
)

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """Give a dtype that CuPy's arrays can have."""
    dtype = np.dtype(dtype)
    if dtype != _BFLOAT16 and dtype.char not in "?bhilqBHILQefdFD":
        raise TypeError(f"CuPy has no arrays of {dtype}")
    return dtype


def new(shape: Any, dtype: Any) -> Any:
    """Make an array of this thread's device and stream, full of poison."""
    from cupy._array import ndarray

    shape = (shape,) if isinstance(shape, int | np.integer) else tuple(builtins.map(int, shape))
    dtype = check_dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    block, memory = allocate(count * dtype.itemsize, current_queue())
    return ndarray.of(memory.view(dtype).reshape(shape), block, None)


def read(array: Any) -> np.ndarray:
    """Give the values of an array, once its device's current stream has made them."""
    queue = current_queue()
    kept: list[np.ndarray] = []
    memory = array.memory

    def copy() -> bool:
        kept.append(np.array(memory))
        return True

    ENGINE.finish(ENGINE.submit(queue, copy))
    return kept[0]


def _arrays(value: Any) -> Iterator[Any]:
    from cupy._array import ndarray

    if isinstance(value, ndarray):
        yield value
    elif isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}: an array of the host among those of a device")
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _arrays(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _arrays(each)


def _swapped(value: Any, swap: Callable[[Any], Any]) -> Any:
    from cupy._array import ndarray

    if isinstance(value, ndarray):
        return swap(value)
    if isinstance(value, tuple | list):
        return type(value)(_swapped(each, swap) for each in value)
    if isinstance(value, dict):
        return {name: _swapped(each, swap) for name, each in value.items()}
    if isinstance(value, slice):
        return value
    return value


def _memory(array: Any) -> np.ndarray:
    memory: np.ndarray = array.memory
    return memory


def _probe(array: Any) -> np.ndarray:
    """Something of the same shape and dtype, whose values mean nothing: ones, in memory of their own."""
    return np.ones(array.shape, array.dtype)


def check_device(arrays: list[Any]) -> None:
    """Raise unless all are on the current device."""
    for array in arrays:
        if array.device.id != Device().id:
            raise Fault(f"an array of device {array.device.id} used while device {Device().id} is current")


def launch(function: Callable[..., Any], args: Any, kwargs: Any, views: bool = False) -> Any:
    """Call a function of NumPy's: at once on what is like its arguments, later on themselves."""
    from cupy._array import ndarray

    arrays = [*_arrays(args), *_arrays(kwargs)]
    check_device(arrays)
    if views:  # which does not look at the values
        result = function(*_swapped(args, _memory), **_swapped(kwargs, _memory))
        parts = result if isinstance(result, tuple | list) else [result]
        if all(_inside(part, arrays) for part in parts):
            wrapped = [ndarray.of(part, arrays[0].block) for part in parts]
            return type(result)(wrapped) if isinstance(result, tuple | list) else wrapped[0]
    with np.errstate(all="ignore"):
        sketch = function(*_swapped(args, _probe), **_swapped(kwargs, _probe))
    args, kwargs = _swapped(args, _memory), _swapped(kwargs, _memory)
    if not isinstance(sketch, tuple | list):
        result = new(np.shape(sketch), np.asarray(sketch).dtype)
        target = result.memory
        _submit(lambda: np.copyto(target, function(*args, **kwargs)))
        return result
    results = [new(part.shape, part.dtype) for part in map(np.asarray, sketch)]
    targets = [each.memory for each in results]

    def fill() -> None:
        for target, part in zip(targets, function(*args, **kwargs), strict=True):
            np.copyto(target, part)

    _submit(fill)
    if hasattr(sketch, "_fields"):
        return type(sketch)(*results)
    return type(sketch)(results)


def launch_into(out: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function that fills `out`, with ``out=`` the memory of it."""
    check_device([out, *_arrays(args), *_arrays(kwargs)])
    with np.errstate(all="ignore"):
        function(*_swapped(args, _probe), out=_probe(out), **_swapped(kwargs, _probe))
    args, kwargs, target = _swapped(args, _memory), _swapped(kwargs, _memory), out.memory
    _submit(lambda: function(*args, out=target, **kwargs))
    return out


def effect(arrays: list[Any], run: Callable[[], object]) -> None:
    """Do something to the memory of arrays when the stream comes to it."""
    check_device(arrays)
    _submit(run)


def _submit(run: Callable[[], object]) -> None:
    def task() -> bool:
        with np.errstate(all="ignore"):
            run()
        return True

    ENGINE.submit(current_queue(), task)


def _inside(part: Any, arrays: list[Any]) -> bool:
    return isinstance(part, np.ndarray) and (
        part.size == 0 or any(np.may_share_memory(part, each.memory) for each in arrays)
    )
