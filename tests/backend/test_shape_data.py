"""What ShapeArray is and has, what it takes in place, and what only data could tell."""

from __future__ import annotations

import operator
import re
import time
import tracemalloc

import numpy as np
import pytest

from shape_oracle import same
from shardwise.backend.errors import DataDependentShapeError, DTypeError, ShapeError
from shardwise.backend.shape import ShapeArray


def test_creation() -> None:
    like = ShapeArray((3, 2), np.float16)
    x = np.ones((3, 2), np.float16)
    same(np.zeros_like(like), np.zeros_like(x))
    same(np.ones_like(like, dtype=bool, shape=(2, 5)), np.ones_like(x, dtype=bool, shape=(2, 5)))
    same(np.empty_like(like, np.int8), np.empty_like(x, np.int8))
    same(np.full_like(like, 2.5, shape=4), np.full_like(x, 2.5, shape=4))
    same(np.zeros((2, 3), like=like), np.zeros((2, 3)))
    same(np.ones(5, np.int32, like=like), np.ones(5, np.int32))
    same(np.full((2,), 7, like=like), np.full((2,), 7))
    same(np.empty((), np.float32, like=like), np.empty((), np.float32))
    for arguments in ((5,), (2, 9), (2, 9, 3), (9, 2, -2), (0.0, 1.0, 0.3), (4, 2)):
        same(np.arange(*arguments, like=like), np.arange(*arguments))
    same(np.arange(3, dtype=np.uint64, like=like), np.arange(3, dtype=np.uint64))
    assert np.shape(like) == (3, 2)
    assert np.ndim(like) == 2
    assert np.size(like) == 6
    assert not np.iscomplexobj(like)


def test_attributes_and_methods() -> None:
    x, c = ShapeArray((2, 3, 4), np.float32), ShapeArray((2,), np.complex64)
    assert (x.ndim, x.size, x.itemsize, x.nbytes, len(x)) == (3, 24, 4, 96, 2)
    assert (x.T.shape, c.real.dtype, c.imag.dtype) == ((4, 3, 2), np.float32, np.float32)
    same(np.real(c), np.ones(2, np.float32))
    assert [part.shape for part in x] == [(3, 4), (3, 4)]
    assert x.reshape(6, -1).shape == x.reshape((6, 4)).shape == (6, 4)
    assert x.astype(np.int8).dtype == x.copy().astype("i1").dtype == np.int8
    assert x.view(np.int32).dtype == np.int32
    assert ShapeArray(3).shape == (3,)
    assert repr(x) == "ShapeArray((2, 3, 4), float32)"
    with pytest.raises(DTypeError, match=r"view: wanted a dtype of 4 bytes like float32, got float64\."):
        x.view(np.float64)
    with pytest.raises(TypeError, match="no dims"):
        len(ShapeArray(()))
    with pytest.raises(ShapeError, match=r"wanted lengths of 0 or more, got the shape \(-1, 2\)"):
        ShapeArray((-1, 2))


def test_writing_in_place_checks_shape_and_dtype() -> None:
    x = ShapeArray((2, 3), np.float32)
    before = x
    x += 1.0
    x *= ShapeArray((3,), np.float32)
    assert x is before
    x[0] = 1.0
    x[:, 1] = ShapeArray((1, 1, 2))
    with pytest.raises(ShapeError, match=r"the result has shape \(4, 2, 3\), and out has \(2, 3\)"):
        x += ShapeArray((4, 2, 3))
    with pytest.raises(DTypeError, match=r"numpy.add: the result is complex64, which does not go into out"):
        x += ShapeArray((3,), np.complex64)
    with pytest.raises(ShapeError, match=r"cannot write an array of shape \(4,\) into one of shape \(3,\)"):
        x[0] = np.ones(4)
    with pytest.raises(DataDependentShapeError, match=r"into an array with data"):
        np.exp(x, out=np.empty((2, 3), np.float32))


READS = {
    "bool(ShapeArray((1,), float32))": bool,
    "int(ShapeArray((1,), float32))": int,
    "float(ShapeArray((1,), float32))": float,
    "complex(ShapeArray((1,), float32))": complex,
    "operator.index(ShapeArray((1,), float32))": operator.index,
    "ShapeArray((1,), float32).item()": lambda x: x.item(),
    "ShapeArray((1,), float32).tolist()": lambda x: x.tolist(),
    "ShapeArray((1,), float32).nonzero()": lambda x: x.nonzero(),
    "numpy.asarray(ShapeArray((1,), float32))": np.asarray,
    "0.0 in ShapeArray((1,), float32)": lambda x: 0.0 in x,
    "numpy.nonzero": np.nonzero,
    "numpy.unique": np.unique,
    "numpy.count_nonzero": np.count_nonzero,
    "numpy.where with one argument": np.where,
    "numpy.allclose": lambda x: np.allclose(x, x),
    "numpy.repeat with a ShapeArray for its counts": lambda x: np.repeat(
        np.broadcast_to(x, (3,)), ShapeArray((3,), np.int64)
    ),
}


@pytest.mark.parametrize("operation", READS)
def test_reading_data_is_an_error_that_names_the_operation(operation: str) -> None:
    with pytest.raises(DataDependentShapeError) as caught:
        READS[operation](ShapeArray((1,), np.float32))
    line = re.search(r" at (\S+):\d+ ", str(caught.value))
    assert line is not None
    assert line[1] == __file__
    assert str(caught.value) == (
        f"{operation}{line[0]}depends on the data of the array, and a ShapeArray holds none. Run this part "
        "on arrays with data, or write it with operations whose result has a known shape."
    )


def test_no_memory_and_no_time() -> None:
    x = ShapeArray((10**6, 10**6), np.float32)
    index = ShapeArray((10**5, 10**5), np.int64)
    started = time.perf_counter()
    tracemalloc.start()
    try:
        y = np.exp(x @ x.T) * 2.0
        y = np.where(np.tril(np.ones_like(y, dtype=bool)), y, -np.inf)
        parts = (
            *(np.sum(y, axis=0), np.argmax(y, axis=1), np.cumsum(y), np.sort(y), np.repeat(y, 3, 0)),
            *(
                np.concatenate([y, y]),
                np.stack([y, y]),
                np.reshape(y, (-1,)),
                np.ravel(y),
                np.tile(y, (2, 2)),
            ),
            *(
                np.take(y, index, 0),
                y[index],
                np.take_along_axis(y, index[:1, :] + x[:1, :1].astype("i8"), 1),
            ),
            *(np.pad(y, 3), np.roll(y, 5), np.clip(y, 0.0, 1.0), np.arange(10**14, like=y), np.flip(y)),
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert time.perf_counter() - started < 2.0  # any pass over 10**12 elements takes minutes
    assert parts[0].shape == (10**6,)
    assert parts[10].shape == (10**5, 10**5, 10**6)
