"""Spread, norms, sums of exponentials, covariance, bins: against NumPy and SciPy, and at the edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special as scipy_special

import shardwise as sw
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor import Tensor

NAN, INF = math.nan, math.inf


def tracked(*values: Any) -> Tensor:
    array = np.array(values)
    return sw.tensor(array if array.dtype.kind == "c" else array.astype(np.float64), requires_grad=True)


def gradient(result: Tensor, x: Tensor) -> list[Any]:
    result.sum().backward()
    assert x.grad is not None
    return x.grad.tolist()  # type: ignore[no-any-return]


@settings(max_examples=60, deadline=None)
@given(
    shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=4),
    keepdim=st.booleans(),
    correction=st.sampled_from([0, 1, 0.5]),
    data=st.data(),
)
def test_spread_and_norms_are_those_of_numpy(
    shape: tuple[int, ...], keepdim: bool, correction: float, data: st.DataObject
) -> None:
    rng = np.random.default_rng(sum(shape))
    array = rng.standard_normal(shape)
    if data.draw(st.booleans()):
        array = array + 1j * rng.standard_normal(shape)
    dim = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    x = sw.tensor(array)
    for ours, theirs in ((x.var, np.var), (x.std, np.std)):
        expected = theirs(array, axis=dim, ddof=correction, keepdims=keepdim)
        actual = ours(dim, keepdim=keepdim, correction=correction).data
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
        assert actual.dtype == np.float64
    (var, mean), (std, _) = x.var_mean(dim, keepdim=keepdim), x.std_mean(dim, keepdim=keepdim)
    np.testing.assert_allclose(var.data, np.var(array, axis=dim, ddof=1, keepdims=keepdim), rtol=1e-12)
    np.testing.assert_allclose(std.data**2, var.data, rtol=1e-12)
    np.testing.assert_allclose(mean.data, np.mean(array, axis=dim, keepdims=keepdim), rtol=1e-12)
    for p in (0, 0.5, 1, 2, 3, -1, INF, -INF):
        flat = array.reshape(-1) if dim is None else array
        expected = np.linalg.norm(flat, p, axis=0 if dim is None else dim, keepdims=False)
        actual = x.norm(p, dim, keepdim).data
        np.testing.assert_allclose(actual.reshape(np.shape(expected)), expected, rtol=1e-12)
    assert x.norm(dim=dim, keepdim=True).ndim == len(shape)
    expected = scipy_special.logsumexp(array, axis=dim, keepdims=keepdim)
    np.testing.assert_allclose(x.logsumexp(dim, keepdim).data, expected, rtol=1e-12)


def test_ways_to_ask_for_a_correction() -> None:
    x = sw.tensor([[1.0, 2.0], [3.0, 6.0]])
    plain, biased = x.var(0), x.var(0, correction=0)
    for result in (x.var(0, True), x.var(0, unbiased=True), x.var(dim=0, correction=1), np.var(x, 0, ddof=1)):
        assert result.tolist() == plain.tolist()
    for result in (
        x.var(0, False),
        x.var(dim=0, unbiased=False),
        np.var(x, 0),
        np.var(x, axis=0, correction=0),
    ):
        assert result.tolist() == biased.tolist()
    assert x.var(False).item() == x.var(correction=0).item() == 3.5
    assert x.std(0, True, True).shape == x.var((0,), keepdim=True).shape == (1, 2)
    with pytest.raises(ArgumentError, match="give unbiased or correction, not both"):
        x.var(0, True, correction=1)
    with pytest.raises(ArgumentError, match="unbiased was given twice"):
        x.std(True, True)


def test_too_few_elements_to_spread() -> None:
    one = tracked([1.0], [2.0])
    assert bool(np.isnan(one.var(1).data).all())
    assert np.isnan(gradient(one.var(1), one)).all()
    assert one.var(1, correction=0).tolist() == [0.0, 0.0]
    two = sw.tensor([[1.0, 3.0], [1.0, 1.0]])
    infinite, undefined = two.std(1, correction=2).tolist()
    assert infinite == INF
    assert math.isnan(undefined)
    assert np.isnan(sw.zeros(2, 0).var(1).data).all()
    assert sw.zeros(0, 2).std(1).shape == (0,)
    assert math.isnan(sw.tensor(3.0).var().item())
    assert sw.tensor(3.0).var(correction=0).item() == 0.0


def test_gradients_at_zero() -> None:
    same = tracked(2.0, 2.0, 2.0)
    assert gradient(same.std(), same) == [0.0] * 3
    for p in ("fro", 0.5, 1, 1.5, 2, 3, INF):
        x = tracked(0.0, 0.0)
        assert gradient(x.norm(p), x) == [0.0, 0.0]
        z = tracked(0j, 0j)
        assert gradient(z.norm(p), z) == [0.0, 0.0]
    x = tracked(0.0, 2.0)
    assert gradient(x.norm(0.5), x) == [0.0, 1.0]
    x = tracked(0.0, 2.0)
    assert gradient(x.norm(0) + x.sum(), x) == [1.0, 1.0]
    assert x.norm(-1.0).item() == 0.0


def test_complex_gradients_point_uphill() -> None:
    z = tracked(3.0 + 4.0j, 0.0)
    assert gradient(z.norm(), z) == pytest.approx([0.6 + 0.8j, 0.0])
    z = tracked(1.0 + 1.0j, 1.0 - 1.0j)
    assert z.var().item() == pytest.approx(2.0)
    assert gradient(z.var(), z) == pytest.approx([2.0j, -2.0j])
    z = tracked(2.0j, 3.0 + 0.0j)
    assert gradient(z.prod().real, z) == pytest.approx([3.0, -2.0j])


def test_norms_of_wrong_things() -> None:
    x = sw.tensor([[3, 4]])
    assert x.norm().dtype == np.float64
    assert sw.tensor([3.0, 4.0]).norm(None).item() == sw.tensor([3.0, 4.0]).norm("fro", 0).item() == 5.0
    assert sw.ones(2).norm(dtype=np.float64).dtype == np.float64
    assert sw.zeros(0).norm().item() == 0.0
    with pytest.raises(
        ArgumentError, match=r"norm: p='nuc'; wanted a number or 'fro'\. linalg has the norms"
    ):
        x.norm("nuc")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"norm: dim 0 of shape \(0,\) has no element to choose"):
        sw.zeros(0).norm(INF)


def test_sums_of_exponentials_at_the_edges() -> None:
    rows = np.array([[-INF, -INF], [INF, 1e5], [-INF, 2.0], [1000.0, 1000.0], [NAN, 1e5], [INF, -INF]])
    x = sw.tensor(rows, requires_grad=True)
    out = x.logsumexp(1)
    np.testing.assert_array_equal(out.data[:3], [-INF, INF, 2.0])
    assert out.data[3] == pytest.approx(1000.0 + math.log(2.0))
    assert math.isnan(out.data[4])
    assert out.data[5] == INF
    out.backward(sw.ones_like(out))
    assert x.grad is not None
    grad = x.grad.data
    np.testing.assert_array_equal(grad[[0, 1, 2, 5]], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(grad[3], [0.5, 0.5])
    assert sw.zeros(2, 0).logsumexp(1).tolist() == [-INF, -INF]
    assert sw.tensor([1, 2]).logsumexp(0).item() == pytest.approx(math.log(math.e + math.e**2))
    assert sw.tensor([[1.0, 2.0]]).logsumexp((0, 1)).shape == ()


def test_covariance() -> None:
    rng = np.random.default_rng(5)
    array = rng.standard_normal((3, 6))
    fweights, aweights = rng.integers(1, 4, 6), rng.random(6)
    x, f, a = sw.tensor(array), sw.tensor(fweights), sw.tensor(aweights)
    for correction in (0, 1, 2):
        for weights in (
            {},
            {"fweights": fweights},
            {"aweights": aweights},
            {"fweights": fweights, "aweights": aweights},
        ):
            ours = {name: {"fweights": f, "aweights": a}[name] for name in weights}
            np.testing.assert_allclose(
                x.cov(correction=correction, **ours).data,
                np.cov(array, ddof=correction, **weights),  # type: ignore[call-overload]
                rtol=1e-12,
            )
    wave = array + 1j * array[::-1]
    np.testing.assert_allclose(sw.tensor(wave).cov().data, np.cov(wave), rtol=1e-12)
    np.testing.assert_allclose(sw.tensor(wave).corrcoef().data, np.corrcoef(wave), rtol=1e-12)
    np.testing.assert_allclose(x.corrcoef().data, np.corrcoef(array), rtol=1e-12)
    assert (x[0].cov().shape, x[0].corrcoef().item()) == ((), pytest.approx(1.0))
    assert math.isnan(sw.tensor(3.0).cov().item())
    assert sw.ones(2, 1).cov().dtype == np.float32  # also where there is nothing to divide by
    assert sw.tensor([[1.0, 2.0], [3.0, 5.0]]).cov(correction=2).tolist() == [[INF, INF], [INF, INF]]
    with pytest.raises(
        ShapeError, match=r"cov: wanted a matrix with a variable in each row, got the shape \(1, 1, 1\)"
    ):
        sw.ones(1, 1, 1).cov()
    with pytest.raises(ShapeError, match=r"cov: fweights must have the shape \(6,\), got \(2,\)"):
        x.cov(fweights=sw.tensor([1, 2]))
    with pytest.raises(
        DTypeError, match=r"cov: fweights are counts, got float64; aweights may be any numbers"
    ):
        x.cov(fweights=a)


def test_counts_in_bins() -> None:
    rng = np.random.default_rng(8)
    array = rng.standard_normal((5, 8))
    x = sw.tensor(array)
    for bins in (1, 4, 7):
        hist, edges = np.histogram(array, bins)
        ours = x.histogram(bins)
        np.testing.assert_array_equal(ours.hist.data, hist)
        np.testing.assert_allclose(ours.bin_edges.data, edges, rtol=1e-12)
        np.testing.assert_array_equal(x.histc(bins).data, hist)
        np.testing.assert_array_equal(x.histc(bins, -1, 1).data, np.histogram(array, bins, (-1, 1))[0])
    weights = rng.random((5, 8))
    given = sw.tensor([-1.0, 0.0, 0.5, 2.0]).double()
    ours = x.histogram(given, weight=sw.tensor(weights), density=True)
    expected = np.histogram(array, given.data, weights=weights, density=True)[0]
    np.testing.assert_allclose(ours.hist.data, expected, rtol=1e-12)
    assert ours.bin_edges is given


def test_edges_of_bins() -> None:
    x = sw.tensor([0.0, 1.0, 2.0, NAN, 5.0])
    assert x.histc(2, 0, 2).tolist() == [1.0, 2.0]  # the last bin has both its ends
    assert sw.tensor([3.0, 3.0]).histc(2).tolist() == [0.0, 2.0]
    assert sw.tensor([3.0, 3.0]).histogram(2).bin_edges.tolist() == [2.5, 3.0, 3.5]
    assert sw.zeros(0).histogram(2).bin_edges.tolist() == [0.0, 0.5, 1.0]
    assert sw.zeros(0).histc(3).tolist() == [0.0] * 3
    assert (x.histc(2, 0, 2).dtype, sw.tensor([1, 2]).histc(2).dtype) == (np.float32, np.float64)
    weight = sw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    hist = sw.tensor([0.5, 1.5, 9.0]).histogram(2, range=(0.0, 2.0), weight=weight).hist
    (hist * sw.tensor([10.0, 20.0])).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [10.0, 20.0, 0.0]
    for wrong, kind, message in (
        (lambda: x.histc(0), ArgumentError, "histc: bins=0; wanted a number of at least 1"),
        (
            lambda: x.histc(2),
            ArgumentError,
            "histc: the range from nan to nan is not finite; give one that is",
        ),
        (
            lambda: x.histc(2, 3, 1),
            ArgumentError,
            r"histc: the range begins at 3\.0, behind its end 1\.0; swap",
        ),
        (
            lambda: x.histogram(sw.ones(1)),
            ShapeError,
            r"histogram: the edges of bins must have the shape \(n,\)",
        ),
        (
            lambda: x.histogram(2, range=(0, 1), weight=sw.ones(2)),
            ShapeError,
            r"weight must have the elements' shape",
        ),
        (lambda: sw.tensor([1j]).histc(), DTypeError, "histc: complex numbers have no order, got complex64"),
    ):
        with pytest.raises(kind, match=message):
            wrong()
