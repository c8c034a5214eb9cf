"""NumPy's functions that are made of others, and what is refused: values and dtypes are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
V = RNG.standard_normal(7)
W = RNG.standard_normal(3)
M = RNG.standard_normal((3, 4))
C = RNG.standard_normal((2, 3, 4))
UP = np.array([-2.0, -0.5, 0.25, 1.0, 3.0])
HOLED = np.where(RNG.random((3, 4)) < 0.3, np.nan, M)
N = np.array([3, 1, 2, 3, 5, 1])
Z = V[:4] + 1j * V[3:]

# What gives floats, and has gradients with respect to all of its arrays.
SMOOTH: dict[str, tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]] = {
    "gradient": (lambda x: np.gradient(x), (V,)),
    "gradient of a dim": (lambda x: np.gradient(x, 0.5, axis=1), (M,)),
    "gradient of all dims": (lambda x: np.gradient(x, 2.0, 0.25, edge_order=2)[0], (M,)),
    "gradient between points": (lambda x, p: np.gradient(x, p, edge_order=2), (UP[::-1] ** 2, UP)),
    "gradient of two": (lambda x: np.gradient(x), (V[:2],)),
    "convolve": (np.convolve, (V, W)),
    "convolve same": (lambda a, b: np.convolve(a, b, "same"), (V, W)),
    "convolve even": (lambda a, b: np.convolve(a, b, "same"), (V, W[:2])),
    "convolve valid": (lambda a, b: np.convolve(a, b, "valid"), (V, W)),
    "convolve shorter": (lambda a, b: np.convolve(a, b, "same"), (W, V)),
    "convolve complex": (np.convolve, (Z, Z[:2])),
    "correlate": (np.correlate, (V, W)),
    "correlate full": (lambda a, b: np.correlate(a, b, "full"), (V, W)),
    "correlate same": (lambda a, b: np.correlate(a, b, "same"), (V, W[:2])),
    "correlate shorter": (lambda a, b: np.correlate(a, b, "same"), (W[:2], V)),
    "correlate complex": (lambda a, b: np.correlate(a, b, "full"), (Z, Z[:2])),
    "interp": (np.interp, (np.array([-3.0, -0.75, 0.1, 2.0, 4.0]), UP, V[:5])),
    "interp beyond": (
        lambda x, p, f: np.interp(x, p, f, left=0.0, right=9.0), (np.array([-3.0, 0.1, 4.0]), UP, V[:5]),
    ),
    "ediff1d": (lambda x: np.ediff1d(x, to_end=[9.0]), (M,)),
    "block": (lambda a, b: np.block([[a, a], [b, b]]), (M, C[0])),
    "block of vectors": (lambda a, b: np.block([a, b]), (V, W)),
    "insert": (lambda a, b: np.insert(a, 1, b, axis=0), (M, M[0])),
    "insert number": (lambda a: np.insert(a, -1, 2.5, axis=1), (M,)),
    "insert flat": (lambda a: np.insert(a, 2, [1.0, 2.0]), (M,)),
    "select": (lambda x: np.select([x > 1.0, x > 0.0], [x * 2.0, x * x], -x), (M,)),
    "polyval": (np.polyval, (W, V)),
    "vander": (lambda x: np.vander(x, 4), (W,)),
    "vander increasing": (lambda x: np.vander(x, increasing=True), (W,)),
    "compress": (lambda x: np.compress([True, False, True], x, axis=0), (M,)),
    "extract": (lambda x: np.extract(M > 0, x), (M,)),
    "nancumsum": (lambda x: np.nancumsum(np.where(np.isnan(HOLED), np.nan, x), axis=1), (M,)),
    "nancumprod": (lambda x: np.nancumprod(np.where(np.isnan(HOLED), np.nan, x)), (M,)),
    "tensorinv": (lambda x: np.linalg.tensorinv(x, 1), (C.reshape(4, 6)[:, :4].reshape(4, 2, 2),)),
    "tensorsolve": (np.linalg.tensorsolve, (np.eye(6).reshape(2, 3, 6) + 0.1, M[:2, :3])),
    "partition": (lambda x: np.sort(np.partition(x, 2)), (M,)),
    "ldexp": (lambda x: np.ldexp(x, 2), (M,)),
    "modf": (lambda x: np.modf(x)[0], (M,)),
    "add reduce": (np.add.reduce, (M,)),
    "multiply reduce": (lambda x: np.multiply.reduce(x, axis=1, keepdims=True), (M,)),
    "maximum reduce": (lambda x: np.maximum.reduce(x, axis=None), (M,)),
    "add accumulate": (np.add.accumulate, (M,)),
    "multiply accumulate": (lambda x: np.multiply.accumulate(x, axis=1), (M,)),
    "subtract outer": (np.subtract.outer, (V, M)),
}  # fmt: skip
if hasattr(np, "cumulative_sum"):
    SMOOTH["cumulative_sum"] = (lambda x: np.cumulative_sum(x, axis=1, include_initial=True), (M,))
    SMOOTH["cumulative_sum of nothing"] = (
        lambda x: np.cumulative_sum(x[:, :0], axis=1, include_initial=True),
        (M,),
    )
    SMOOTH["cumulative_prod"] = (lambda x: np.cumulative_prod(x), (V,))
    SMOOTH["unstack"] = (lambda x: np.unstack(x, axis=1)[2], (M,))
if hasattr(np, "vecdot"):
    SMOOTH["vecdot"] = (np.vecdot, (M, M[0]))
if hasattr(np, "matvec"):
    SMOOTH["matvec"] = (np.matvec, (C, M[0]))
    SMOOTH["vecmat"] = (np.vecmat, (W, C))

# What gives integers, or elements that are chosen.
DISCRETE: dict[str, Callable[..., Any]] = {
    "nanargmax": lambda h, n: np.nanargmax(h, axis=1),
    "nanargmin": lambda h, n: np.nanargmin(h, keepdims=True),
    "nanargmax of integers": lambda h, n: np.nanargmax(n),
    "digitize": lambda h, n: np.digitize(n, np.array([1, 3, 4])),
    "digitize right": lambda h, n: np.digitize(n, np.array([1, 3, 4]), right=True),
    "digitize falling": lambda h, n: np.digitize(n, np.array([4, 3, 1])),
    "union1d": lambda h, n: np.union1d(n, n + 2),
    "intersect1d": lambda h, n: np.intersect1d(n, n + 1),
    "setdiff1d": lambda h, n: np.setdiff1d(n, np.array([1, 2])),
    "setxor1d": lambda h, n: np.setxor1d(n, n + 1),
    "nancumsum of integers": lambda h, n: np.nancumsum(n),
    "divmod": lambda h, n: np.divmod(n, 2)[1],
    "dtype of a ufunc": lambda h, n: np.sqrt(n, dtype=np.float32),
    "logical_and reduce": lambda h, n: np.logical_and.reduce(n > 1),
    "logical_or reduce": lambda h, n: np.logical_or.reduce(n > 1),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_values(name: str) -> None:
    function, arrays = SMOOTH[name]
    result, expected = function(*[sw.tensor(array) for array in arrays]), function(*arrays)
    assert isinstance(result, sw.Tensor)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(result.data, expected, rtol=1e-12, atol=1e-14)
    narrow = function(
        *[sw.tensor(a.astype(np.complex64 if a.dtype.kind == "c" else np.float32)) for a in arrays]
    )
    np.testing.assert_allclose(narrow.data, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name: str) -> None:
    function, arrays = SMOOTH[name]
    tensors = [sw.tensor(array, requires_grad=True) for array in arrays]
    assert gradcheck(function, tensors)
    assert gradgradcheck(function, tensors)


@pytest.mark.parametrize("name", [name for name, (_, arrays) in SMOOTH.items() if len(arrays) > 1])
def test_one_tensor_among_arrays(name: str) -> None:
    function, arrays = SMOOTH[name]
    for i in range(len(arrays)):
        given = [sw.tensor(array) if i == j else array for j, array in enumerate(arrays)]
        result = function(*given)
        assert isinstance(result, sw.Tensor)
        np.testing.assert_allclose(result.data, function(*arrays), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", DISCRETE)
def test_indices_and_choices(name: str) -> None:
    function = DISCRETE[name]
    result, expected = function(sw.tensor(HOLED), sw.tensor(N)), function(HOLED, N)
    assert isinstance(result, sw.Tensor)
    assert (result.shape, result.dtype) == (np.shape(expected), np.asarray(expected).dtype)
    np.testing.assert_array_equal(result.data, expected)


def test_what_only_looks_gets_the_array(tmp_path: Path) -> None:
    x = sw.tensor(M, requires_grad=True)
    np.save(tmp_path / "x.npy", x)  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), M)
    np.savez(tmp_path / "x.npz", first=x)  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["first"], M)
    assert np.result_type(x, np.float32) == np.float64  # type: ignore[arg-type]
    assert np.shares_memory(x, x.detach())  # type: ignore[arg-type]
    assert np.array_repr(x[:1, :1].detach()).startswith("array([[")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.lexsort(x), "numpy.lexsort does not take tensors"),
        (lambda x: np.linalg.lstsq(x, x), "numpy.linalg.lstsq does not take tensors"),
        (lambda x: np.apply_along_axis(np.sum, 0, x), "numpy.apply_along_axis does not take tensors"),
        (lambda x: np.frexp(x), "numpy.frexp does not take tensors"),
        (lambda x: np.add.at(x, 0, 1.0), "numpy.add.at does not take tensors"),
        (lambda x: np.logaddexp.reduce(x), "numpy.logaddexp.reduce does not take tensors"),
        (
            lambda x: np.add(x, x, where=M > 0),
            "numpy.add of tensors takes no 'where'; choose with numpy.where() behind it",
        ),
    ],
)
def test_what_is_not_there_says_what_to_do(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(DTypeError) as caught:
        call(sw.tensor(M))
    if "does not take" in message:
        message += (
            ": give it x.detach().numpy(), whose result has no gradient, or write it with functions that do"
        )
    assert str(caught.value) == message


def test_wrong_arguments() -> None:
    x = sw.tensor(M)
    calls: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: np.gradient(x[:1], axis=0), ShapeError, "1 elements along a dim, and edge_order=1 needs 2"),
        (lambda: np.gradient(x, edge_order=3), ArgumentError, "edge_order must be 1 or 2, got 3"),
        (lambda: np.gradient(x, 1.0, 1.0, 1.0), ArgumentError, "3 spacings for 2 axes"),
        (lambda: np.convolve(x, x), ShapeError, "wanted two vectors that are not empty"),
        (lambda: np.interp(x, UP, V), ShapeError, r"wanted two vectors of points, got \(5,\) and \(7,\)"),
        (lambda: np.interp(x, UP, V[:5], period=1.0), ArgumentError, "takes no period"),
        (lambda: np.insert(x, 9, 0.0, axis=0), ArgumentError, "place 9 lies outside of dim 0 of size 3"),
        (lambda: np.select([x > 0], [x, x]), ArgumentError, "1 conditions and 2 choices"),
        (lambda: np.nanargmax(x * np.nan), ArgumentError, "a slice has nothing but NaN"),
        (lambda: np.linalg.tensorinv(x, 1), ShapeError, "do not make a square"),
    ]
    for call, kind, message in calls:
        with pytest.raises(kind, match=message):
            call()
