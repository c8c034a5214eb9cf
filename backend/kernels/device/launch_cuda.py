"""Launching CUDA kernels on CuPy's arrays: compiled when first needed, in blocks that fit the sizes.

Whoever calls has made the arrays' device the current one (``Kernel`` does). Kernels run on CuPy's current
stream, as everything else on the device.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.unavailable import FusedUnavailableError

__all__ = [
    "Argument",
    "DeviceTables",
    "Launcher",
    "check_same_shape",
    "columns",
    "contiguous",
    "device_table",
    "each",
    "empty",
    "integers",
    "matrix",
    "optional",
    "parts",
    "rows",
    "upload",
    "wide",
    "zeros",
]

Argument = Array | np.generic | int | float | None
Sizes = tuple[int, ...]

_POINTWISE = 256  # threads of a block
_WARP, _LARGEST_TEAM = 32, 1024
_MOST_BLOCKS, _MOST_IN_Y = 1 << 20, 65535  # kernels go on from there by themselves
_ROWS = 128  # of a group, as in columns.cuh


class Launcher:
    """The kernels of one source, compiled for a dtype when one of them is first launched for it.

    Parameters
    ----------
    source : DeviceSource
    """

    def __init__(self, source: DeviceSource) -> None:
        self.source = source
        self._kernels: dict[tuple[str, str], Callable[..., None]] = {}
        self._compiling = threading.Lock()

    def __call__(self, name: str, dtype: DTypeLike, sizes: tuple[Sizes, Sizes], *arguments: Argument) -> None:
        """Launch a kernel, unless there is nothing to do.

        Parameters
        ----------
        name : str
            Of the kernel.
        dtype : dtype
            That of its ``real``.
        sizes : pair of tuple of int
            Blocks of the grid and threads of a block; no block means no launch.
        *arguments : array, number or None
            Integers become ``int64``, floats ``double``, None the null pointer; NumPy's scalars stay.

        Raises
        ------
        FusedUnavailableError
            If it cannot be compiled here.
        """
        grid, block = sizes
        if 0 in grid:
            return
        key = name, np.dtype(dtype).name
        kernel = self._kernels.get(key) or self._compiled(*key)
        kernel(grid, block, tuple(map(_argument, arguments)))

    def forget(self) -> None:
        """Let go of what was compiled."""
        self._kernels.clear()

    def _compiled(self, name: str, dtype: str) -> Callable[..., None]:
        import cupy

        with self._compiling:
            module = cupy.RawModule(code=self.source.text, options=self.source.options(dtype))
            try:
                kernel: Callable[..., None] = module.get_function(name)
            except (
                Exception
            ) as error:  # NVRTC missing, too old, or for another device: all mean the same here
                raise FusedUnavailableError(
                    f"CuPy could not compile {self.source.file} for {dtype}: {type(error).__name__}: {error}"
                ) from error
            self._kernels[name, dtype] = kernel
        return kernel


def _argument(value: Argument) -> Array | np.generic:
    if isinstance(value, int):
        return np.int64(value)
    if isinstance(value, float):
        return np.float64(value)
    return np.uint64(0) if value is None else value


# ---- sizes


def each(count: int, itemsize: int) -> tuple[Sizes, Sizes]:
    """Blocks for a loop over `count` elements, of which a thread takes 16 bytes at a time."""
    per_block = _POINTWISE * max(16 // itemsize, 1)
    return (min(-(-count // per_block), _MOST_BLOCKS),), (_POINTWISE,)


def rows(count: int, columns: int, itemsize: int) -> tuple[Sizes, Sizes]:
    """Blocks for a loop over `count` rows, each worked on by a team of threads; see ``team.cuh``.

    A thread should get some 32 bytes of a row: enough of a row is then under way to keep memory busy,
    and the rows that are, together, fit in the cache from which they are read again.
    """
    team = 1
    while team < _LARGEST_TEAM and team * 32 < columns * itemsize:
        team *= 2
    teams = _POINTWISE // team if team <= _WARP else 1
    return (min(-(-count // teams), _MOST_BLOCKS),), (team, teams)


def parts(count: int) -> int:
    """How many groups of rows ``columns.cuh`` makes of `count` rows: there is one sum per group."""
    return -(-count // _ROWS)


def columns(count: int, many: int) -> tuple[Sizes, Sizes]:
    """Blocks for sums over `count` rows of `many` columns; see ``columns.cuh``."""
    return (min(-(-many // _WARP), _MOST_BLOCKS), min(parts(count), _MOST_IN_Y)), (_WARP, 8)


# ---- arrays


def check_same_shape(name: str, g: Array, x: Array, what: str = "input") -> None:
    """Raise ShapeError unless a gradient has the shape of what it belongs to."""
    if g.shape != x.shape:
        raise ShapeError(
            f"{name}: the gradient has shape {g.shape}, and the {what} {x.shape}; wanted the same."
        )


def empty(like: Array, shape: Shape, dtype: DTypeLike | None = None) -> Array:
    """A contiguous array whose values mean nothing yet, on the device of `like`, and of its dtype."""
    return np.empty_like(like, dtype, order="C", shape=shape)


def zeros(like: Array, shape: Shape, dtype: DTypeLike | None = None) -> Array:
    """The same, filled with zeros."""
    return np.zeros_like(like, dtype, order="C", shape=shape)


def contiguous(x: Array) -> Array:
    """`x`, or a copy of it if it is not C-contiguous."""
    return x if x.flags.c_contiguous else x.copy(order="C")


def optional(x: Array | None) -> Array | None:
    """`x` as by :func:`contiguous`, if it is there: None becomes the null pointer."""
    return None if x is None else contiguous(x)


def matrix(x: Array) -> tuple[Array, int, int]:
    """`x` contiguous, and how many rows and columns it is: the last dim and all others."""
    columns = x.shape[-1]
    count = x.size // columns if columns else math.prod(x.shape[:-1])
    return contiguous(x), count, columns


def integers(index: Array) -> Array:
    """An index array of any integer dtype as a contiguous int64 array."""
    return contiguous(index.astype(np.int64, copy=False))


def wide(dtype: DTypeLike) -> np.dtype[np.generic]:
    """What arithmetic on elements of `dtype` is done in: the dtype of statistics."""
    return np.dtype(np.float64 if np.dtype(dtype) == np.float64 else np.float32)


def upload(values: Array) -> Array:
    """A copy of a NumPy array on the current device."""
    import cupy

    copy: Array = cupy.asarray(values)
    return copy


class DeviceTables:
    """Tables of integers in the memory of devices; those that were asked for before are kept."""

    def __init__(self, most: int = 1024) -> None:
        self._made = functools.lru_cache(most)(self._make)

    def __call__(self, like: Array, values: tuple[int, ...]) -> Array:
        """These integers, as an int64 array on the device of `like`."""
        return self._made(like.device.id, values)  # type: ignore[attr-defined]  # CuPy's; NumPy's stub has no id

    def forget(self) -> None:
        """Let go of them all."""
        self._made.cache_clear()

    @staticmethod
    def _make(device: int, values: tuple[int, ...]) -> Array:
        import cupy

        table = upload(np.array(values, np.int64))
        cupy.cuda.get_current_stream().synchronize()  # kernels on other streams will read it too
        return table


device_table = DeviceTables()
