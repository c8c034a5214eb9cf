"""CUDA random numbers, equal bit for bit to the formulas in ``random.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Launcher, each, empty
from shardwise.backend.kernels.random.quantile_constants import quantile_constants
from shardwise.backend.position import Grid

__all__ = ["bernoulli", "launch", "normal", "random_words", "uniform"]

launch = Launcher(
    DeviceSource(
        "random/random.cu",
        exact=True,
        given={"quantile_constants.cuh": quantile_constants()},
        dtypes=("float32", "float64"),
    )
)

_WORDS = 2**64


def random_words(like: Array, count: int, seed: int, stream: int, start: int | Grid) -> Array:
    if isinstance(start, Grid):  # in several runs: by the formula
        return NotImplemented
    out = empty(like, (count,), np.uint32)
    launch("random_words", np.float32, each(count + 3, 4), out, *_stream(seed, stream), start, count)
    return out


def uniform(
    like: Array, count: int, dtype: np.dtype[np.generic], seed: int, stream: int, offset: int | Grid
) -> Array:
    return _numbers("uniform", like, count, dtype, seed, stream, offset)


def normal(
    like: Array, count: int, dtype: np.dtype[np.generic], seed: int, stream: int, offset: int | Grid
) -> Array:
    return _numbers("normal", like, count, dtype, seed, stream, offset)


def bernoulli(like: Array, count: int, threshold: int, seed: int, stream: int, offset: int | Grid) -> Array:
    if isinstance(offset, Grid):
        return NotImplemented
    out = empty(like, (count,), np.bool_)
    words = (*_stream(seed, stream), offset)
    launch("bernoulli", np.float32, each(count + 3, 4), out, *words, threshold, count)
    return out


def _numbers(
    name: str,
    like: Array,
    count: int,
    dtype: np.dtype[np.generic],
    seed: int,
    stream: int,
    offset: int | Grid,
) -> Array:
    if isinstance(offset, Grid):
        return NotImplemented
    out = empty(like, (count,), dtype)
    launch(name, dtype, each(count + 3, dtype.itemsize), out, *_stream(seed, stream), offset, count)
    return out


def _stream(seed: int, stream: int) -> tuple[np.uint64, np.uint64]:
    return np.uint64(seed % _WORDS), np.uint64(stream % _WORDS)
