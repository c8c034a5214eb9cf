"""NumPy's functions on tensors that have no method of their own: their values are NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AutogradError, DTypeError, ShapeError
from shardwise.tensor import gradcheck, gradgradcheck

REAL = (np.float64, np.float32, np.int64)


def holed(dtype: type[Any], *shape: int) -> np.ndarray:
    """Normal numbers, and NaN in the first row and some other places, where the dtype has it."""
    rng = np.random.default_rng(3)
    array = (3.0 * rng.standard_normal(shape)).astype(dtype)
    if array.dtype.kind == "f":
        array[rng.random(shape) < 0.3] = np.nan
        array[0] = np.nan
    return array


def same(ours: Any, theirs: Any) -> None:
    assert isinstance(ours, sw.Tensor)
    assert (ours.shape, ours.dtype) == (np.shape(theirs), np.asarray(theirs).dtype)
    rtol = 1e-5 if ours.dtype.itemsize == 4 else 1e-12
    np.testing.assert_allclose(ours.data, theirs, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *itertools.product(("nanmax", "nanmin"), REAL),  # complex numbers have no order
        *itertools.product(("nanprod", "nanvar", "nanstd"), (*REAL, np.complex128)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # NumPy's, of slices with nothing but NaN
def test_reductions_without_nan(name: str, dtype: type[Any]) -> None:
    function = getattr(np, name)
    for shape in ((3, 4), (4,), (2, 3, 4)):
        array = holed(dtype, *shape)
        x = sw.tensor(array)
        for options in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}):
            same(function(x, **options), function(array, **options))
    if name in ("nanvar", "nanstd"):
        same(function(x, axis=1, ddof=1), function(array, axis=1, ddof=1))


@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanprod", "nanvar", "nanstd"])
def test_nan_takes_no_part_in_gradients(name: str) -> None:
    rng = np.random.default_rng(0)
    holes = rng.random((4, 5)) < 0.3
    x = sw.tensor(rng.standard_normal((4, 5)), requires_grad=True)

    def function(a: sw.Tensor) -> Any:
        return getattr(np, name)(sw.where(holes, np.nan, a), axis=0)

    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_average() -> None:
    rng = np.random.default_rng(1)
    array = rng.standard_normal((3, 4))
    x = sw.tensor(array, requires_grad=True)
    full, rows, columns = rng.random((3, 4)), rng.random(3), rng.random(4)
    for weights, options in (
        (None, {"axis": 0}), (full, {}), (full, {"axis": 1}), (columns, {"axis": 1}),
        (rows, {"axis": -2, "keepdims": True}),
    ):  # fmt: skip
        theirs = np.average(array, weights=weights, **options)  # type: ignore[call-overload]
        same(np.average(x, weights=weights, **options), theirs)  # type: ignore[call-overload]
        value, total = np.average(array, weights=weights, returned=True, **options)  # type: ignore[call-overload]
        ours = np.average(x, weights=weights, returned=True, **options)  # type: ignore[call-overload]
        np.testing.assert_allclose(np.asarray(ours[0].detach()), value)
        np.testing.assert_allclose(np.asarray(ours[1]), total)
    assert gradcheck(lambda a, w: np.average(a, 1, w), (x, sw.tensor(columns, requires_grad=True)))
    with pytest.raises(ShapeError) as caught:
        np.average(x, axis=0, weights=columns)
    assert str(caught.value) == (
        "np.average: weights of shape (4,) have neither the shape (3, 4) nor one number per element along "
        "axis=0"
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda m: np.linalg.trace(m, offset=1),
        lambda m: np.linalg.diagonal(m, offset=-1),
        lambda m: np.linalg.matrix_transpose(m),
        lambda m: np.linalg.matmul(m, m),
        lambda m: np.linalg.vecdot(m, m, axis=1),
        lambda m: np.linalg.tensordot(m, m, axes=([1], [2])),
        lambda m: np.linalg.outer(m[0, 0], m[0, 1]),
        lambda m: np.vstack([m, m], dtype=np.float32),
        lambda m: np.hstack([m, m], dtype=np.float32),
        lambda m: np.rollaxis(m, 2),
        lambda m: np.rollaxis(m, 0, 3),
        lambda m: np.rollaxis(m, -1, -2),
    ],
)
def test_further_names(function: Callable[[Any], Any]) -> None:
    array = np.random.default_rng(2).standard_normal((2, 3, 3))
    same(function(sw.tensor(array)), function(array))


def test_sizes() -> None:
    x = sw.ones(2, 3)
    assert (np.size(x), np.size(x, 1)) == (6, 3)


def test_arrays_take_up_tensors() -> None:
    array = np.ones(2)
    kept = array
    array += sw.tensor([1.0, 2.0])
    assert array is kept
    assert array.tolist() == [2.0, 3.0]
    assert np.exp(sw.zeros(2), out=array) is array  # type: ignore[call-overload]
    assert array.tolist() == [1.0, 1.0]
    with pytest.raises(AutogradError) as caught:
        array *= sw.tensor([1.0, 2.0], requires_grad=True)
    assert str(caught.value) == (
        "cannot write a tensor that requires grad into a NumPy array, which has no history; leave out= (or "
        "+= and the like) away, or call detach() first"
    )


def test_options_are_no_tensors() -> None:
    x = sw.ones(2)
    with pytest.raises(DTypeError) as caught:
        np.isclose(x, x, rtol=x)
    assert (
        str(caught.value) == "IsClose got a tensor where it takes a number or an option; pass x.item() there"
    )
