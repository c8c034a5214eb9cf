"""Linear algebra: the values of NumPy and SciPy, what holds of each result, dtypes, messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise.backend.array import Array
from shardwise.errors import ArgumentError, AutogradError, LinAlgError, ShapeError
from shardwise.tensor import Tensor, grad, linalg
from shardwise.tensor.signature import FlopCounter
from tolerance import tolerance

DTYPES = ["f4", "f8", "c8", "c16"]
BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 1), (0,)]


def draw(shape: tuple[int, ...], dtype: str = "f8", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed + sum(shape))
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.startswith("c") else values).astype(dtype)


def square(batch: tuple[int, ...], n: int, dtype: str = "f8") -> Array:
    return draw((*batch, n, n), dtype) + (2 * np.eye(n)).astype(dtype)


def adjoint(a: Array) -> Array:
    return np.conj(np.swapaxes(a, -1, -2))


def close(actual: Tensor, expected: Any, times: float = 30.0) -> None:
    """Compare in the precision of `actual`, and their dtypes."""
    expected = np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    error = times * tolerance(np.empty(0, actual.dtype).real.dtype)
    scale = float(np.max(np.abs(expected), initial=1.0))
    np.testing.assert_allclose(actual.data / scale, expected / scale, rtol=0, atol=error)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_square_matrices(batch: tuple[int, ...], dtype: str) -> None:
    a = square(batch, 4, dtype)
    x = sw.tensor(a)
    close(linalg.inv(x), np.linalg.inv(a))
    close(linalg.det(x), np.linalg.det(a))
    close(x.det(), np.linalg.det(a))
    for ours, theirs in zip(linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
        close(ours, theirs)
    for n in (-3, -1, 0, 1, 2, 5):
        close(linalg.matrix_power(x, n), np.linalg.matrix_power(a, n), 1000)
    for b in (draw((*batch, 4, 2), dtype), draw((4, 2), dtype)):
        close(linalg.solve(x, sw.tensor(b)), np.linalg.solve(a, b))
    b = draw((*batch, 4), dtype)
    close(linalg.solve(x, sw.tensor(b)), np.linalg.solve(a, b[..., None])[..., 0])
    b = draw((*batch, 2, 4), dtype)
    close(linalg.solve(x, sw.tensor(b), left=False) @ x, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems(dtype: str, upper: bool, unit: bool) -> None:
    for n in (1, 5, 48, 49, 130):  # around the size of the blocks
        a = draw((n, n), dtype) / n + np.eye(n, dtype=dtype)
        b = draw((n, 3), dtype)
        # NaN on the other side (and on a diagonal of ones) shows that it is not read
        full = np.where(np.tri(n, dtype=bool).T if upper else np.tri(n, dtype=bool), a, np.nan).astype(dtype)
        if unit:
            np.fill_diagonal(full, np.nan)
        expected = scipy.linalg.solve_triangular(a, b, lower=not upper, unit_diagonal=unit)
        close(
            linalg.solve_triangular(sw.tensor(full), sw.tensor(b), upper=upper, unitriangular=unit), expected
        )
    x = linalg.solve_triangular(sw.tensor(a), sw.tensor(b.T), upper=upper, left=False)
    triangle = np.triu(a) if upper else np.tril(a)
    close(x @ sw.tensor(triangle), b.T)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_cholesky(batch: tuple[int, ...], dtype: str) -> None:
    a = square(batch, 3, dtype)
    a = a @ adjoint(a)
    x = sw.tensor(a)
    lower = np.linalg.cholesky(a)
    close(linalg.cholesky(x), lower)
    close(x.cholesky(upper=True), adjoint(lower))
    # only one triangle is read
    close(sw.tensor(np.tril(a)).cholesky(), lower)
    close(sw.tensor(np.triu(a)).cholesky(True), adjoint(lower))
    b = draw((*batch, 3, 2), dtype)
    for upper in (False, True):
        factor = x.cholesky(upper)
        close(sw.tensor(b).cholesky_solve(factor, upper), np.linalg.solve(a, b), 1000)
        close(factor.cholesky_inverse(upper), np.linalg.inv(a), 1000)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3), (0, 3), (3, 0), (2, 3, 2), (0, 2, 2)])
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...], dtype: str) -> None:
    a = draw(shape, dtype)
    x = sw.tensor(a)
    k = min(shape[-2:])
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(x, mode)  # type: ignore[arg-type]
        close(q @ r, a)
        close(q.mH @ q, np.broadcast_to(np.eye(q.shape[-1], dtype=dtype), (*shape[:-2], *q.shape[-1:] * 2)))
        np.testing.assert_array_equal(r.data, np.triu(r.data))
    q, r = linalg.qr(x, "r")
    assert q.shape == (0,)
    close(r, np.linalg.qr(a, "r"))
    for full in (False, True):
        u, s, vh = linalg.svd(x, full)
        close(s, np.linalg.svd(a, compute_uv=False))
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
    close(linalg.svdvals(x), np.linalg.svd(a, compute_uv=False))
    u, s, v = x.svd()
    close((u * s.unsqueeze(-2)) @ v.mH, a)
    assert [part.shape[-2:] for part in x.svd(compute_uv=False)[::2]] == [shape[-2:-1] * 2, shape[-1:] * 2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_eigenvalues(batch: tuple[int, ...], dtype: str) -> None:
    a = square(batch, 3, dtype)
    values, vectors = linalg.eig(sw.tensor(a))
    assert values.dtype == vectors.dtype == np.result_type(dtype, "c8")
    close(sw.tensor(a) @ vectors, (vectors * values.unsqueeze(-2)).data)
    np.testing.assert_allclose(linalg.eigvals(sw.tensor(a)).data, values.data, rtol=1e-4)
    h = a + adjoint(a)
    for triangle in ("L", "U"):
        half = np.tril(h) if triangle == "L" else np.triu(h)
        values, vectors = linalg.eigh(sw.tensor(half), triangle)  # type: ignore[arg-type]
        close(values, np.linalg.eigvalsh(h))
        close((vectors * values.unsqueeze(-2)) @ vectors.mH, h)
        close(linalg.eigvalsh(sw.tensor(half), triangle), np.linalg.eigvalsh(h))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (2, 3, 3), (0, 3)])
def test_pseudo_inverses_and_least_squares(shape: tuple[int, ...], dtype: str) -> None:
    a, b = draw(shape, dtype), draw((*shape[:-1], 2), dtype, 1)
    x = sw.tensor(a)
    close(linalg.pinv(x), np.linalg.pinv(a))
    close(x.pinverse(), np.linalg.pinv(a))
    solution, residuals, rank, values = linalg.lstsq(x, sw.tensor(b))
    close(solution, np.linalg.pinv(a) @ b)
    close(values, np.linalg.svd(a, compute_uv=False))
    np.testing.assert_array_equal(rank.data, np.linalg.matrix_rank(a))
    if shape == (4, 2):
        close(residuals, np.sum(np.abs(a @ solution.data - b) ** 2, axis=0))
    else:
        assert residuals.shape == (0,)
    close(linalg.lstsq(x, sw.tensor(b[..., 0])).solution, solution.data[..., 0])


def test_thresholds() -> None:
    u, _, vh = np.linalg.svd(draw((3, 3)))
    a = sw.tensor((u * np.array([4.0, 1.0, 1e-3])) @ vh)
    assert linalg.matrix_rank(a).item() == 3
    assert linalg.matrix_rank(a, atol=1e-2).item() == 2
    assert linalg.matrix_rank(a, rtol=0.3).item() == 1
    assert linalg.matrix_rank(a, atol=2.0, rtol=1e-9).item() == 1
    assert linalg.matrix_rank(sw.zeros(2, 3, 3)).tolist() == [0, 0]
    both = sw.stack([a, a])
    assert linalg.matrix_rank(both, atol=sw.tensor([1e-2, 2.0])).tolist() == [2, 1]
    close(linalg.pinv(a, atol=1e-2), np.linalg.pinv(a.data, rcond=1e-2))
    close(linalg.pinv(a, rtol=0.3), np.linalg.pinv(a.data, rcond=0.3))
    h = (u * np.array([4.0, -1.0, 1e-3])) @ u.T
    close(linalg.pinv(sw.tensor(h), hermitian=True), np.linalg.pinv(h))
    assert linalg.matrix_rank(sw.tensor(h), atol=0.1, hermitian=True).item() == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms(dtype: str) -> None:
    a = draw((2, 3, 4), dtype)
    x = sw.tensor(a)
    for keepdim in (False, True):
        for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
            expected = np.linalg.norm(a, ord, axis=(0, 2), keepdims=keepdim)
            close(linalg.matrix_norm(x, ord, (0, 2), keepdim), expected)  # type: ignore[arg-type]
            close(linalg.norm(x, ord, (0, 2), keepdim), expected)  # type: ignore[arg-type]
        for ord in (0, 0.5, 1, 2, 3, -1, math.inf, -math.inf):
            expected = np.linalg.norm(a, ord, axis=1, keepdims=keepdim)
            close(linalg.vector_norm(x, ord, 1, keepdim), expected)
            close(linalg.norm(x, ord, 1, keepdim), expected)
        close(linalg.norm(x, keepdim=keepdim), np.linalg.norm(a, keepdims=keepdim))
    close(linalg.norm(x[0], 2), np.linalg.norm(a[0], 2))
    for p in (None, 2, -2, "fro", "nuc", 1, math.inf):
        close(linalg.cond(x[0, :, :3], p), np.linalg.cond(a[0, :, :3], p), 1000)  # type: ignore[arg-type]
    assert linalg.norm(sw.tensor([3, 4])).item() == 5.0
    assert linalg.norm(sw.ones(3), dtype=np.float64).dtype == np.float64


def test_norms_of_nothing() -> None:
    for ord in ("fro", "nuc", 1, 2, math.inf):
        assert linalg.matrix_norm(sw.zeros(0, 0), ord).item() == 0.0  # type: ignore[arg-type]
    for ord in (-1, -2, -math.inf):
        with pytest.raises(ShapeError, match="has no elements to choose from"):
            linalg.matrix_norm(sw.zeros(0, 0), ord)
        with pytest.raises(ShapeError, match="vector_norm: shape \\(2, 0\\) has no elements"):
            linalg.vector_norm(sw.zeros(2, 0), ord, dim=1)
    assert linalg.cond(sw.zeros(2, 2)).item() == math.inf


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-6, 0.1, 1.0, 30.0])
def test_matrix_exponential(dtype: str, scale: float) -> None:
    a = (draw((2, 6, 6), dtype) * scale / math.sqrt(6)).astype(dtype)
    wide = np.stack([scipy.linalg.expm(m.astype("c16" if dtype[0] == "c" else "f8")) for m in a])
    close(linalg.matrix_exp(sw.tensor(a)), wide.astype(dtype), 30 * max(scale, 1.0))


def test_matrix_exponential_of_extremes() -> None:
    a = np.array([[[-1e6, 0.0], [0.0, 0.5]], [[np.nan, 0.0], [0.0, 1.0]], [[np.inf, 0.0], [0.0, 1.0]]])
    out = linalg.matrix_exp(sw.tensor(a)).data
    np.testing.assert_allclose(out[0], np.diag([0.0, math.exp(0.5)]), rtol=1e-10)  # 18 squarings
    assert np.isnan(out[1:]).all()
    assert linalg.matrix_exp(sw.tensor([[800.0]])).item() == math.inf
    assert linalg.matrix_exp(sw.tensor(np.zeros((2, 2), int))).data.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    nilpotent = np.triu(np.ones((3, 3)), 1)
    expected = np.eye(3) + nilpotent + nilpotent @ nilpotent / 2
    np.testing.assert_allclose(sw.tensor(nilpotent).matrix_exp().data, expected, rtol=1e-14)


def test_small_things() -> None:
    a, b = draw((2, 3)), draw((2, 3), seed=1)
    close(linalg.cross(sw.tensor(a), sw.tensor(b)), np.cross(a, b))
    close(sw.tensor(a.T).cross(sw.tensor(b.T)), np.cross(a, b).T)
    close(np.cross(sw.tensor(a), sw.tensor(b)), np.cross(a, b))
    close(linalg.vecdot(sw.tensor(a), sw.tensor(b[0])), a @ b[0])
    close(linalg.multi_dot([sw.tensor(a), sw.tensor(b.T), sw.tensor(a)]), a @ b.T @ a)
    close(linalg.matmul(sw.tensor(a), sw.tensor(b.T)), a @ b.T)
    close(linalg.vander(sw.tensor(a)), np.stack([np.vander(row, increasing=True) for row in a]))
    assert linalg.vander(sw.tensor([2, 3]), N=0).shape == (2, 0)
    c = draw((2, 3, 6))
    close(linalg.tensorinv(sw.tensor(c)), np.linalg.tensorinv(c))
    close(linalg.tensorsolve(sw.tensor(c), sw.tensor(a)), np.linalg.tensorsolve(c, a))
    close(linalg.diagonal(sw.tensor(c), offset=1), np.diagonal(c, 1, -2, -1))
    close(sw.tensor(np.eye(2) * 3.0).logdet(), np.log(9.0))
    assert math.isnan(sw.tensor([[-1.0]]).logdet().item())
    assert sw.tensor([[0.0]]).logdet().item() == -math.inf
    assert linalg.slogdet(sw.zeros(2, 2)).sign.item() == 0.0


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_floats_of_16_bits_are_computed_in_32(kind: Any) -> None:
    a = square((2,), 3).astype(kind)
    x = sw.tensor(a, requires_grad=True)
    wide = a.astype(np.float32)
    for ours, theirs in (
        (linalg.inv(x), np.linalg.inv(wide)),
        (linalg.svdvals(x), np.linalg.svd(wide, compute_uv=False)),
        (linalg.solve(x, x[..., 0]), np.linalg.solve(wide, wide[..., :1])[..., 0]),
        (linalg.norm(x), np.linalg.norm(wide)),
    ):
        assert ours.dtype == kind
        np.testing.assert_allclose(ours.data.astype(np.float32), theirs, rtol=0.02, atol=0.02)
    linalg.det(x).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == kind


def test_integers_are_taken_as_float64() -> None:
    x = sw.tensor([[2, 1], [1, 3]])
    for result in (linalg.inv(x), linalg.det(x), linalg.svdvals(x), linalg.norm(x), linalg.matrix_norm(x, 1)):
        assert result.dtype == np.float64
    close(linalg.inv(x), np.linalg.inv(x.data))


# ---- gradients where formulas divide by zero


def gradient(function: Callable[[Tensor], Tensor], a: Any) -> Array:
    x = sw.tensor(np.asarray(a), requires_grad=True)
    (g,) = grad(function(x).sum(), x)
    return g.data


def test_determinants_of_singular_matrices() -> None:
    a = np.arange(9.0).reshape(3, 3)
    cofactors = np.array([[-3.0, 6.0, -3.0], [6.0, -12.0, 6.0], [-3.0, 6.0, -3.0]])
    np.testing.assert_allclose(gradient(linalg.det, a), cofactors, atol=1e-12)
    np.testing.assert_array_equal(gradient(linalg.det, np.zeros((3, 3))), np.zeros((3, 3)))
    np.testing.assert_allclose(gradient(linalg.det, np.zeros((1, 1))), [[1.0]])
    with pytest.raises(LinAlgError, match=r"^inv: the matrix is singular"):
        gradient(lambda x: linalg.slogdet(x).logabsdet, np.ones((2, 2)))


def test_values_that_coincide() -> None:
    """Sums of functions of all values have a gradient, although single vectors have none."""
    identity = np.eye(3)
    np.testing.assert_allclose(gradient(lambda x: linalg.svd(x).S, identity), identity, atol=1e-15)
    np.testing.assert_allclose(gradient(linalg.svdvals, 2 * identity), identity, atol=1e-15)
    np.testing.assert_allclose(gradient(lambda x: linalg.eigh(x).eigenvalues, identity), identity, atol=1e-15)
    np.testing.assert_allclose(
        gradient(lambda x: linalg.matrix_norm(x, "nuc"), identity), identity, atol=1e-15
    )
    np.testing.assert_array_equal(gradient(linalg.norm, np.zeros((2, 2))), np.zeros((2, 2)))
    np.testing.assert_array_equal(gradient(linalg.pinv, np.zeros((2, 3))), np.zeros((2, 3)))

    def polar(x: Tensor) -> Tensor:
        """The rotation in a matrix, which is smooth in it; weighted, for it to have a gradient."""
        u, _, vh = linalg.svd(x)
        return (u @ vh) * sw.tensor(np.arange(9.0).reshape(3, 3))

    a = np.diag([2.0, 2.0, 1.0])
    step, eps = draw((3, 3)), 1e-6

    def value(m: Array) -> float:
        u, _, vh = np.linalg.svd(m)
        return float(np.sum(u @ vh * np.arange(9.0).reshape(3, 3)))

    slope = (value(a + eps * step) - value(a - eps * step)) / (2 * eps)
    np.testing.assert_allclose(np.sum(gradient(polar, a) * step), slope, rtol=1e-7)


def test_what_has_no_gradient_says_so() -> None:
    x = sw.tensor(draw((3, 2)), requires_grad=True)
    with pytest.raises(AutogradError, match=r"mode='complete' has no gradient for matrices with more rows"):
        linalg.qr(x, "complete").R.sum().backward()
    assert not linalg.matrix_rank(x).requires_grad


# ---- NumPy's names


def test_numpy_functions_take_tensors() -> None:
    a = square((2,), 3)
    h = a + adjoint(a)
    for function, values in {
        np.linalg.inv: a, np.linalg.det: a, np.linalg.cond: a, np.linalg.norm: a, np.linalg.pinv: a,
        np.linalg.matrix_rank: a, np.linalg.eigvals: a, np.linalg.eigvalsh: h, np.linalg.svdvals: a,
        np.linalg.matrix_norm: a, np.linalg.vector_norm: a,
    }.items():  # fmt: skip
        ours = function(sw.tensor(values))
        assert isinstance(ours, Tensor)
        np.testing.assert_allclose(ours.data, function(values))
    for pairs, values in {np.linalg.eigh: h, np.linalg.eig: a, np.linalg.slogdet: a, np.linalg.qr: a}.items():
        for part, expected in zip(pairs(sw.tensor(values)), pairs(values), strict=True):
            np.testing.assert_allclose(part.data, expected)
    x = sw.tensor(a)
    np.testing.assert_allclose(np.linalg.svd(x, compute_uv=False).data, np.linalg.svd(a, compute_uv=False))
    np.testing.assert_allclose(np.linalg.qr(x, "r").data, np.linalg.qr(a, "r"))
    np.testing.assert_allclose(np.linalg.solve(x, a[0]).data, np.linalg.solve(a, a[0]))
    np.testing.assert_allclose(np.linalg.solve(x, a[0, 0]).data, np.linalg.solve(a, a[0, 0]))
    np.testing.assert_allclose(np.linalg.matrix_power(x, -2).data, np.linalg.matrix_power(a, -2))
    np.testing.assert_allclose(np.linalg.norm(x, 1, axis=(0, 1), keepdims=True).data.shape, (1, 1, 3))
    positive = a @ adjoint(a)
    np.testing.assert_allclose(np.linalg.cholesky(sw.tensor(positive)).data, np.linalg.cholesky(positive))
    for product, first, second in (
        (np.dot, a, a[0]), (np.dot, a[0], a[1]), (np.vdot, a, a), (np.outer, a, a[0]), (np.inner, a, a[0]),
        (np.kron, a[0], a[1]), (np.linalg.cross, a[0], a[1]),
    ):  # fmt: skip
        np.testing.assert_allclose(product(sw.tensor(first), second).data, product(first, second))


# ---- messages


SINGULAR = (
    "is singular. Add a small multiple of the identity, or use pinv() or lstsq(), which take any matrix"
)


@pytest.mark.parametrize(
    ("call", "op", "why"),
    [
        (linalg.inv, "inv", SINGULAR),
        (lambda m: linalg.solve(m, sw.ones(2, 1)), "solve", SINGULAR),
        (
            lambda m: linalg.solve_triangular(m, sw.ones(2, 1), upper=True),
            "solve_triangular",
            "has a zero on its diagonal, so the system has no single solution",
        ),
        (
            linalg.cholesky,
            "cholesky",
            "is not positive-definite. Check that it is Hermitian, or add a small multiple of the identity",
        ),
    ],
)
def test_singular_matrices_are_named(call: Callable[[Tensor], Tensor], op: str, why: str) -> None:
    bad, good = np.zeros((2, 2)), np.eye(2)
    for matrices, which in (
        (bad, "the matrix"),
        (np.stack([good, good, bad]), "matrix 2 of a batch of shape (3,)"),
        (
            np.stack([np.eye(2), np.eye(2), bad, bad]).reshape(2, 2, 2, 2),
            "matrix (1, 0) of a batch of shape (2, 2)",
        ),
    ):
        with pytest.raises(LinAlgError) as caught:
            call(sw.tensor(matrices, dtype=np.float32))
        assert str(caught.value) == f"{op}: {which} {why}"
    assert isinstance(caught.value, np.linalg.LinAlgError)
    assert isinstance(caught.value, RuntimeError)  # which PyTorch's is


def test_nan_in_decompositions() -> None:
    lost = sw.full((2, 2), np.nan)
    for function in (linalg.svd, linalg.svdvals, linalg.pinv, linalg.eig, linalg.eigvals):
        with pytest.raises(LinAlgError, match=r"the matrix gave no .*values; are there NaN or infinite num"):
            function(lost)
    assert np.isnan(linalg.eigvalsh(lost).data).all()
    assert np.isnan(linalg.inv(lost).data).all()
    assert math.isnan(linalg.det(lost).item())
    assert math.isnan(linalg.slogdet(lost).logabsdet.item())
    assert linalg.det(sw.tensor(10 * np.eye(200), dtype=np.float32)).item() == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: linalg.inv(sw.ones(2, 3)),
            "inv: wanted square matrices, shape (..., n, n), got shape (2, 3)",
        ),
        (lambda: linalg.svd(sw.ones(2)), "svd: wanted matrices, shape (..., m, n), got shape (2,)"),
        (
            lambda: linalg.solve(sw.ones(2, 2), sw.ones(3, 1)),
            "solve: for matrices of shape (2, 2) wanted a right side of shape (..., 2, k), got (3, 1)",
        ),
        (
            lambda: linalg.solve(sw.ones(2, 2), sw.ones(2, 3), left=False),
            "solve: for matrices of shape (2, 2) wanted a right side of shape (..., k, 2), got (2, 3)",
        ),
        (
            lambda: linalg.solve(sw.ones(4, 2, 2), sw.ones(3, 2, 1)),
            "solve: the batch dims of shapes (4, 2, 2) and (3, 2, 1) do not broadcast",
        ),
        (
            lambda: linalg.solve(sw.ones(2, 2), sw.ones(2), left=False),
            "solve: wanted matrices on the right side with left=False, got shape (2,); give vectors a dim of "
            "size one",
        ),
        (
            lambda: linalg.lstsq(sw.ones(3, 2), sw.ones(2, 2)),
            "lstsq: for matrices of shape (3, 2) wanted a right side of shape (..., 3, k), got (2, 2)",
        ),
        (
            lambda: linalg.norm(sw.ones(2, 2, 2), 2),
            "norm: with ord=2 wanted a vector or a matrix, got shape (2, 2, 2); name the dims",
        ),
        (
            lambda: linalg.matrix_norm(sw.ones(2, 2), dim=(0, -2)),
            "matrix_norm: the dims of rows and columns are the same in dim=(0, -2)",
        ),
        (
            lambda: linalg.cross(sw.ones(2, 3), sw.ones(3)),
            "cross: wanted as many dims of both, got shapes (2, 3) and (3,)",
        ),
        (
            lambda: linalg.cross(sw.ones(2), sw.ones(2)),
            "cross: wanted size 3 along dim 0, got shapes (2,) and (2,)",
        ),
        (
            lambda: linalg.tensorinv(sw.ones(2, 3)),
            "tensorinv: wanted the first 2 dims of shape (2, 3) to multiply to the same as the others, got 6 "
            "and 1",
        ),
    ],
)
def test_shapes_that_do_not_fit(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value) == message


def test_choices_are_named() -> None:
    x = sw.ones(2, 2)
    for call, message in (
        (lambda: linalg.qr(x, "full"), "qr: wanted mode to be 'reduced', 'complete' or 'r', got 'full'"),  # type: ignore[arg-type]
        (lambda: linalg.eigh(x, "X"), "eigh: wanted UPLO to be 'L' or 'U', got 'X'"),  # type: ignore[arg-type]
        (
            lambda: linalg.matrix_norm(x, 3),
            r"matrix_norm: wanted ord to be 'fro', 'nuc', 1, .*, got 3; vector_norm",
        ),
        (lambda: linalg.vector_norm(x, "fro"), "vector_norm: wanted a number for ord, got 'fro'"),  # type: ignore[arg-type]
        (lambda: linalg.matrix_power(x, 0.5), "matrix_power: wanted an integer for the power, got 0.5"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ArgumentError, match=message):
            call()


def test_flops() -> None:
    x = sw.tensor(square((5,), 4))
    with FlopCounter() as counter:
        linalg.inv(x)
        linalg.solve(x, sw.ones(4, 3))
        linalg.matrix_exp(x)
    assert counter.by_op == {
        "Inv": 5 * 2 * 64,
        "Solve": 5 * (128 // 3 + 2 * 16 * 3),
        "MatrixExp": 5 * 16 * 64,
    }


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(0, 5), k=st.integers(0, 3), batch=st.sampled_from(BATCHES), dtype=st.sampled_from(DTYPES)
)
def test_solving_undoes_multiplying(n: int, k: int, batch: tuple[int, ...], dtype: str) -> None:
    a, x = square(batch, n, dtype), draw((*batch, n, k), dtype)
    close(linalg.solve(sw.tensor(a), sw.tensor(a @ x)), x, 10_000)
