"""ShapeArray gives the shapes and dtypes that ``numpy.linalg`` and ``numpy.fft`` give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shape_oracle import agree, same
from shardwise.backend.array import Array
from shardwise.backend.shape import ShapeArray

INEXACT = ["f4", "f8", "c8", "c16"]
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)


def positive(shape: tuple[int, ...], dtype: str) -> Array:
    """Positive-definite where the shape is that of square matrices."""
    n = min(shape[-2:], default=1)
    ones = np.ones(shape, dtype)
    return ones + np.eye(n, dtype=dtype) if len(shape) > 1 and shape[-1] == shape[-2] else ones


@settings(max_examples=150)
@given(shape=shapes, square=st.booleans(), dtype=st.sampled_from([*INEXACT, "i4", "u1"]))
def test_one_matrix(shape: tuple[int, ...], square: bool, dtype: str) -> None:
    if square and len(shape) > 1:
        shape = (*shape[:-1], shape[-2])
    a = positive(shape, dtype)
    for function in (np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky):
        agree(function, a)
    agree(np.linalg.eigh, a)
    agree(np.linalg.eigvalsh, a, UPLO="U")
    for full in (True, False):
        agree(np.linalg.svd, a, full_matrices=full)
    agree(np.linalg.svd, a, compute_uv=False)
    for mode in ("reduced", "complete", "r"):
        agree(np.linalg.qr, a, mode)
    if dtype.startswith("c"):  # NumPy gives real results of real matrices where all values are real
        agree(np.linalg.eig, a)
        agree(np.linalg.eigvals, a)


def test_eigenvalues_are_complex_unless_data_tells_otherwise() -> None:
    values, vectors = np.linalg.eig(ShapeArray((5, 3, 3), np.float32))
    assert (values.shape, values.dtype) == ((5, 3), np.complex64)
    assert (vectors.shape, vectors.dtype) == ((5, 3, 3), np.complex64)


@settings(max_examples=100)
@given(
    batch=hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2),
    other=hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2),
    n=st.integers(0, 3),
    rows=st.integers(0, 3),
    columns=st.integers(0, 3),
    x=st.sampled_from(INEXACT),
    y=st.sampled_from(INEXACT),
)
def test_solve(
    batch: tuple[int, ...], other: tuple[int, ...], n: int, rows: int, columns: int, x: str, y: str
) -> None:
    agree(np.linalg.solve, positive((*batch, n, n), x), np.ones((*other, rows, columns), y))
    agree(np.linalg.solve, positive((*batch, n, n), x), np.ones((rows,), y))


@settings(max_examples=200)
@given(
    shape=shapes,
    n=st.one_of(st.none(), st.integers(0, 6)),
    axis=st.integers(-4, 3),
    norm=st.sampled_from([None, "backward", "ortho", "forward"]),
    dtype=st.sampled_from([*INEXACT, "f2", "i4"]),
)
def test_transforms(shape: tuple[int, ...], n: int | None, axis: int, norm: str | None, dtype: str) -> None:
    a = np.ones(shape, dtype)
    for function in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft):
        agree(function, a, n, axis, norm)


@pytest.mark.parametrize("function", [np.fft.fftn, np.fft.ifftn])
def test_transforms_of_several_dims(function: np.ufunc) -> None:
    a = np.ones((2, 3, 4), np.float32)
    for s, axes in ((None, None), (None, (0, 2)), ((5, -1), (2, 0)), ((4,), (-2,)), ((1, 2, 3), (0, 1, 2))):
        agree(function, a, s, axes, "ortho")


def test_identity() -> None:
    like = ShapeArray((), np.float32)
    same(np.eye(3, like=like), np.eye(3))
    same(np.eye(3, 4, 1, dtype=bool, like=like), np.eye(3, 4, 1, dtype=bool))
