"""Products by NumPy's BLAS or by MKL: the same numbers, whatever lies how in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from shardwise.backend import product
from shardwise.backend.errors import ArgumentError
from shardwise.backend.mkl import Mkl, layout_of, load_mkl
from shardwise.backend.product import chosen_mkl, matmul, matmul_wide
from shardwise.backend.shape import ShapeArray

needs_mkl = pytest.mark.skipif(
    load_mkl() is None, reason="the mkl package is not installed: pip install 'shardwise[mkl]'"
)


class Recorder:
    """Stands where MKL would: notes what it is given, and multiplies by NumPy."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def matmul(self, a: Any, b: Any, out: Any) -> bool:
        if None in (layout_of(a), layout_of(b), layout_of(out)):
            return False
        self.calls.append((a.shape, b.shape, out.shape))
        np.matmul(a, b, out=out)
        return True

    def matmul_bfloat16(self, a: Any, b: Any, out: Any) -> bool:
        assert (a.dtype, b.dtype, out.dtype) == (ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32)
        return self.matmul(a.astype(np.float32), b.astype(np.float32), out)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(product, "chosen_mkl", lambda: recorder)
    monkeypatch.setattr(product, "_WORTH_A_CALL", 1)
    return recorder


@pytest.fixture
def fresh_choice() -> Iterator[None]:
    chosen_mkl.cache_clear()
    yield
    chosen_mkl.cache_clear()


def matrices(batch: tuple[int, ...], m: int, n: int, dtype: Any, how: str) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(m + n).standard_normal((*batch, m, n)).astype(dtype)
    if how == "transposed":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if how == "cut":
        return np.repeat(x, 2, -2)[..., ::2, :]
    if how == "every other column":
        return np.repeat(x, 2, -1)[..., ::2]
    if how == "backwards":
        return x[..., ::-1, :]
    return x


HOW = ("plain", "transposed", "cut", "every other column", "backwards")
BATCHES = [((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), ()), ((2, 1), (1, 3))]


@pytest.mark.parametrize("how", list(itertools.product(HOW, HOW)), ids="-".join)
@pytest.mark.parametrize("batches", BATCHES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_layout_gives_the_product(
    recorder: Recorder, batches: Any, how: tuple[str, str], dtype: Any
) -> None:
    a, b = matrices(batches[0], 4, 5, dtype, how[0]), matrices(batches[1], 5, 3, dtype, how[1])
    wanted = np.matmul(a, b)
    np.testing.assert_array_equal(matmul(a, b), wanted)
    out = np.empty_like(wanted)
    assert matmul(a, b, out=out) is out
    np.testing.assert_array_equal(out, wanted)


@needs_mkl
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mkl_gives_the_product(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setattr(product, "chosen_mkl", load_mkl)
    monkeypatch.setattr(product, "_WORTH_A_CALL", 1)
    for how, batches in itertools.product(itertools.product(HOW, HOW), BATCHES):
        for m, k, n in ((4, 5, 3), (1, 5, 3), (4, 1, 3), (4, 5, 1), (33, 65, 17)):
            a, b = matrices(batches[0], m, k, dtype, how[0]), matrices(batches[1], k, n, dtype, how[1])
            tolerance = 4 * k * np.finfo(dtype).eps
            np.testing.assert_allclose(matmul(a, b), np.matmul(a, b), rtol=tolerance, atol=tolerance)


@needs_mkl
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", [1, 5])
def test_mkl_writes_matrices_that_lie_between_each_other(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, batch: int
) -> None:
    """As the heads of attention do: row i of all matrices, then row i + 1."""
    monkeypatch.setattr(product, "chosen_mkl", load_mkl)
    monkeypatch.setattr(product, "_WORTH_A_CALL", 1)
    a, b = matrices((batch,), 6, 7, dtype, "plain"), matrices((batch,), 7, 8, dtype, "plain")
    room = np.full((6, batch, 8), np.nan, dtype)
    out = room.swapaxes(0, 1)
    assert matmul(a, b, out=out) is out
    np.testing.assert_allclose(out, np.einsum("bmk,bkn->bmn", a, b), rtol=2e-5, atol=2e-5)


@needs_mkl
def test_mkl_multiplies_bfloat16() -> None:
    mkl = load_mkl()
    assert isinstance(mkl, Mkl)
    a, b = (matrices((), 6, 6, np.float32, how).astype(ml_dtypes.bfloat16) for how in ("plain", "transposed"))
    out = np.empty((6, 6), np.float32)
    assert mkl.matmul_bfloat16(a, b, out)
    np.testing.assert_allclose(out, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_narrow_products_are_those_of_float32(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(product, "has_bfloat16", lambda: True)
    dtype = np.dtype(getattr(ml_dtypes, name, np.float16))
    a, b = (matrices((), 6, 6, np.float32, how).astype(dtype) for how in ("plain", "transposed"))
    out = matmul_wide(a, b)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


def test_large_products_of_floats_are_given_away(recorder: Recorder) -> None:
    a, b = matrices((2,), 4, 5, np.float32, "plain"), matrices((), 5, 3, np.float32, "plain")
    matmul(a, b)
    assert recorder.calls == [((2, 4, 5), (2, 5, 3), (2, 4, 3))]


def test_what_blas_cannot_take_is_left_to_numpy(recorder: Recorder) -> None:
    a = np.ones((4, 5), np.float32)
    b = np.ones((5, 3), np.float32)
    for x, y in (
        (a.astype(np.int64), b.astype(np.int64)),
        (a.astype(np.complex64), b),
        (a, b.astype(np.float64)),
        (a[0], b),
        (a, b[:, 0]),
        (a[:, :0], b[:0]),
        (a[::-1], b),
    ):
        np.testing.assert_array_equal(matmul(x, y), np.matmul(x, y))
    assert recorder.calls == []


def test_an_out_among_the_inputs_is_left_to_numpy(recorder: Recorder) -> None:
    a = np.arange(16.0).reshape(4, 4)
    wanted = a @ a
    np.testing.assert_array_equal(matmul(a, a, out=a), wanted)
    assert recorder.calls == []


def test_shapes_that_do_not_fit_raise_as_ever(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="mismatch"):
        matmul(np.ones((2, 3)), np.ones((2, 3)))


def test_shapes_without_data_multiply(recorder: Recorder) -> None:
    out = matmul(ShapeArray((2, 3), np.float32), ShapeArray((3, 4), np.float32))
    assert out.shape == (2, 4)


@pytest.mark.usefixtures("fresh_choice")
def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(product.VARIABLE, "numpy")
    assert chosen_mkl() is None
    chosen_mkl.cache_clear()
    monkeypatch.setenv(product.VARIABLE, "atlas")
    with pytest.raises(ArgumentError, match="SHARDWISE_BLAS must be 'mkl' or 'numpy', got 'atlas'"):
        chosen_mkl()


@pytest.mark.usefixtures("fresh_choice")
def test_without_the_package_there_is_no_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "load_mkl", lambda: None)
    monkeypatch.delenv(product.VARIABLE, raising=False)
    assert chosen_mkl() is None
    chosen_mkl.cache_clear()
    monkeypatch.setenv(product.VARIABLE, "mkl")
    with pytest.raises(ArgumentError, match=r"pip install 'shardwise\[mkl\]'"):
        chosen_mkl()


@pytest.mark.usefixtures("fresh_choice")
@pytest.mark.parametrize("intel", [True, False])
def test_mkl_is_taken_on_intel_processors(monkeypatch: pytest.MonkeyPatch, intel: bool) -> None:
    mkl = object()
    monkeypatch.setattr(product, "load_mkl", lambda: mkl)
    monkeypatch.setattr(product, "_is_intel", lambda: intel)
    monkeypatch.delenv(product.VARIABLE, raising=False)
    assert chosen_mkl() is (mkl if intel else None)
