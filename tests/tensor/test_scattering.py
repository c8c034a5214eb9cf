"""Gathering, scattering and their kin, against loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import shardwise as sw
from shardwise.errors import ArgumentError, AutogradError, DTypeError, IndexRangeError, ShapeError
from shardwise.tensor.ops import gather as gathering
from tolerance import assert_close


@st.composite
def placed(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """A target, an index that fits it along a dim, and values to write."""
    shape = draw(hnp.array_shapes(max_dims=3, min_side=1, max_side=4))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    sizes = [draw(st.integers(0, n)) for n in shape]
    sizes[dim] = draw(st.integers(0, 5))
    index = draw(hnp.arrays(np.int64, tuple(sizes), elements=st.integers(0, shape[dim] - 1)))
    rng = np.random.default_rng(index.size)
    return rng.integers(-2, 3, shape) / 2, index, rng.integers(-2, 3, index.shape) / 2, dim


def loop(target: np.ndarray, index: np.ndarray, dim: int, write: Callable[[Any, Any, Any], None]) -> None:
    """Call ``write(target, place, place of the index)`` for each element of an index."""
    for at in np.ndindex(index.shape):
        place = list(at)
        place[dim] = index[at]
        write(target, tuple(place), at)


@settings(max_examples=80, deadline=None)
@given(placed())
def test_gather_and_scatter(case: tuple[np.ndarray, np.ndarray, np.ndarray, int]) -> None:
    target, index, values, dim = case
    t, i, v = sw.tensor(target), sw.tensor(index), sw.tensor(values)
    taken = np.zeros(index.shape)
    loop(target, index, dim, lambda x, place, at: taken.__setitem__(at, x[place]))
    np.testing.assert_array_equal(t.gather(dim, i).data, taken)
    written, added = target.copy(), target.copy()
    loop(written, index, dim, lambda x, place, at: x.__setitem__(place, values[at]))
    np.testing.assert_array_equal(t.scatter(dim, i, v).data, written)
    loop(added, index, dim, lambda x, place, at: x.__setitem__(place, x[place] + values[at]))
    np.testing.assert_array_equal(t.scatter_add(dim, i, v).data, added)
    np.testing.assert_array_equal(t.scatter(dim, i, v, reduce="add").data, added)
    filled = target.copy()
    loop(filled, index, dim, lambda x, place, at: x.__setitem__(place, 7.0))
    np.testing.assert_array_equal(t.scatter(dim, i, value=7.0).data, filled)


COMBINE: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "prod": lambda group: float(np.prod(group)),
    "mean": lambda group: sum(group) / len(group),
    "amax": max,
    "amin": min,
}


@settings(max_examples=60, deadline=None)
@given(placed(), st.sampled_from(sorted(COMBINE)), st.booleans())
def test_scatter_reduce(
    case: tuple[np.ndarray, np.ndarray, np.ndarray, int], reduce: Any, include_self: bool
) -> None:
    target, index, values, dim = case
    groups: dict[tuple[int, ...], list[float]] = {}
    loop(target, index, dim, lambda x, place, at: groups.setdefault(place, []).append(values[at]))
    expected = target.copy()
    for place, group in groups.items():
        expected[place] = COMBINE[reduce]([target[place], *group] if include_self else group)
    result = sw.tensor(target).scatter_reduce(
        dim, sw.tensor(index), sw.tensor(values), reduce, include_self=include_self
    )
    np.testing.assert_allclose(result.data, expected)


def test_large_ones_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    x, index = rng.standard_normal((5, 40, 30)).astype(np.float32), rng.integers(0, 40, (5, 70, 30))
    for dim in (1, 2):
        places = index if dim == 1 else index.transpose(0, 2, 1) % 30
        places = places if dim == 1 else rng.integers(0, 30, (5, 40, 70))
        results = []
        for limit in (0, 1 << 60):
            monkeypatch.setattr(gathering, "_FUSED_FROM", limit)
            a = sw.tensor(x, requires_grad=True)
            taken = a.gather(dim, sw.tensor(places))
            back = sw.zeros(5, 40, 30).scatter_add(dim, sw.tensor(places), taken)
            (taken.sum() + (back * back).sum()).backward()
            assert a.grad is not None
            results.append((taken.detach().data, back.detach().data, a.grad.data))
        for fused, formula in zip(*results, strict=True):
            assert_close(fused, formula.astype(np.float64), 100)
        monkeypatch.setattr(gathering, "_FUSED_FROM", 0)
        with pytest.raises(IndexRangeError, match=r"gather: index\[0, 0, 0\] is -1, out of range for dim"):
            sw.tensor(x).gather(dim, sw.tensor(np.full_like(places, -1)))


def test_extremes_share_and_products_of_zeros_have_gradients() -> None:
    a = sw.tensor([3.0, 0.0, 0.0], requires_grad=True)
    source = sw.tensor([3.0, 3.0, 2.0, 5.0], requires_grad=True)
    index = sw.tensor([0, 0, 1, 1])
    a.scatter_reduce(0, index, source, "amax").sum().backward()
    assert a.grad is not None
    assert source.grad is not None
    np.testing.assert_allclose(a.grad.data, [1 / 3, 0.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(source.grad.data, [1 / 3, 1 / 3, 0.0, 1.0], rtol=1e-6)
    a.grad = source.grad = None
    a.scatter_reduce(0, index, source, "amax", include_self=False).sum().backward()
    assert (a.grad.tolist(), source.grad.tolist()) == ([0.0, 0.0, 1.0], [0.5, 0.5, 0.0, 1.0])
    a.grad = source.grad = None
    a.scatter_reduce(0, index, source, "prod").sum().backward()
    assert (a.grad.tolist(), source.grad.tolist()) == ([9.0, 10.0, 1.0], [9.0, 9.0, 0.0, 0.0])
    nan = sw.tensor([np.nan, 1.0]).scatter_reduce(0, sw.tensor([1]), sw.tensor([np.nan]), "amax")
    assert np.isnan(nan.data).all()


def test_slices_along_a_dim() -> None:
    x, rows = np.arange(12.0).reshape(3, 4), [2, 0, 2]
    t, i = sw.tensor(x), sw.tensor(rows)
    np.testing.assert_array_equal(t.index_select(0, i).data, x[rows])
    np.testing.assert_array_equal(t.index_select(-1, rows).data, x[:, rows])
    np.testing.assert_array_equal(
        t.index_fill(1, i, -1.0).data, np.where([True, False, True, False], -1.0, x)
    )
    np.testing.assert_array_equal(t.index_copy(0, i, sw.tensor(x[[1, 1, 0]])).data, x[[1, 1, 0]])
    added = x.copy()
    np.add.at(added, rows, 2 * x)
    np.testing.assert_array_equal(t.index_add(0, i, t, alpha=2).data, added)
    np.testing.assert_array_equal(
        sw.tensor([1, 2]).index_add(0, sw.tensor([1, 1]), sw.tensor([3, 4])).data, [1, 9]
    )
    np.testing.assert_array_equal(t.take(sw.tensor([[0, -1]])).data, [[0.0, 11.0]])
    np.testing.assert_array_equal(t.put([0, -1], sw.tensor([[5.0], [6.0]])).take([11, 0]).data, [6.0, 5.0])
    np.testing.assert_array_equal(t.masked_select(t > 9.0).data, [10.0, 11.0])
    np.testing.assert_array_equal(
        t.masked_scatter(sw.tensor([True, False, False, True]), -t).data[:, [0, 3]],
        [[0, -1], [-2, -3], [-4, -5]],
    )
    assert t.masked_scatter(sw.tensor([False]), sw.zeros(0)).tolist() == x.tolist()
    assert sw.tensor(1.0).index_select(0, [0]).shape == ()
    assert sw.tensor(1.0).index_add(0, [0], sw.tensor(2.0)).item() == 3.0


def test_in_place_twins_write_into_the_same_memory() -> None:
    i = sw.tensor([1, 1])
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("scatter_", (0, i, sw.tensor([5.0, 6.0]))),
        ("scatter_add_", (0, i, sw.tensor([5.0, 6.0]))),
        ("scatter_reduce_", (0, i, sw.tensor([5.0, 6.0]), "prod")),
        ("index_add_", (0, i, sw.tensor([5.0, 6.0]))),
        ("index_copy_", (0, i, sw.tensor([5.0, 6.0]))),
        ("index_fill_", (0, i, 9.0)),
        ("masked_scatter_", (sw.tensor([True, False, True]), sw.tensor([5.0, 6.0]))),
        ("put_", (i, sw.tensor([5.0, 6.0]), True)),
        ("index_put_", ((i,), sw.tensor([5.0, 6.0]))),
    ]
    for name, args in calls:
        t = sw.tensor([1.0, 2.0, 3.0])
        alias, expected = t.detach(), getattr(t, name[:-1])(*args)
        before = t.version.count
        assert getattr(t, name)(*args) is t
        assert alias.tolist() == expected.tolist() != [1.0, 2.0, 3.0]
        assert t.version.count == before + 1
        leaf = sw.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with pytest.raises(AutogradError, match=rf"cannot write in place \({name}\) into a leaf"):
            getattr(leaf, name)(*args)


I2 = np.array([[0, 1]])
ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda t: t.gather(1, sw.tensor([[0, 3]])), IndexRangeError,
     "gather: index[0, 1] is 3, out of range for dim 1 of size 3; wanted 0 to 2"),
    (lambda t: t.gather(0, sw.tensor([[-1]])), IndexRangeError,
     "gather: index[0, 0] is -1, out of range for dim 0 of size 2; wanted 0 to 1"),
    (lambda t: t.gather(0, [0]), ShapeError,
     "gather: an index of shape (1,) does not fit shape (2, 3); wanted as many dims, and along all but dim "
     "0 not longer"),
    (lambda t: t.gather(0, np.zeros((1, 4), int)), ShapeError,
     "gather: an index of shape (1, 4) does not fit shape (2, 3); wanted as many dims, and along all but dim "
     "0 not longer"),
    (lambda t: t.gather(0, sw.zeros(1, 1)), DTypeError, "gather: the index must be integers, not float32; "
     "cast with long()"),
    (lambda t: t.scatter(1, I2, sw.zeros(1, 1)), ShapeError,
     "scatter: an index of shape (1, 2) wants a source at least as large, got (1, 1)"),
    (lambda t: t.scatter(1, I2, 1.0, reduce="max"), ArgumentError,
     "scatter: reduce must be 'add' or 'multiply', got 'max'"),
    (lambda t: t.scatter(1, I2), ArgumentError, "scatter: wanted src or value, and got neither"),
    (lambda t: t.scatter(1, I2, 1j), DTypeError, "scatter: a complex number does not go into float32"),
    (lambda t: t.scatter(1, I2 + 2, 1.0), IndexRangeError,
     "scatter: index[0, 1] is 3, out of range for dim 1 of size 3; wanted 0 to 2"),
    (lambda t: t.scatter_add(1, I2, sw.zeros(1, 2, dtype=np.complex64)), DTypeError,
     "scatter_add: complex64 does not go into float32; cast with astype() first"),
    (lambda t: t.scatter_reduce(1, I2, t, "max"), ArgumentError,
     "scatter_reduce: reduce must be one of sum, prod, mean, amax, amin; got 'max'"),
    (lambda t: t.index_select(0, I2), ShapeError,
     "index_select: the index must have one dim, got the shape (1, 2)"),
    (lambda t: t.index_select(0, [2]), IndexRangeError,
     "index_select: index[0] is 2, out of range for dim 0 of size 2; wanted 0 to 1"),
    (lambda t: t.index_select(0, 1), DTypeError,
     "index_select: the index must be a tensor or array of integers, not int"),
    (lambda t: t.index_add(0, [0], t), ShapeError,
     "index_add: wanted a source of shape (1, 3), for 1 places along dim 0 of shape (2, 3); got (2, 3)"),
    (lambda t: t.index_add(0, [-1], t[:1]), IndexRangeError,
     "index_add: index[0] is -1, out of range for dim 0 of size 2; wanted 0 to 1"),
    (lambda t: t.index_copy(1, [0, 5], t[:, :2]), IndexRangeError,
     "index_copy: index[1] is 5, out of range for dim 1 of size 3; wanted 0 to 2"),
    (lambda t: t.index_fill(1, [0], sw.zeros(3)), ShapeError,
     "index_fill: wanted one number, got the shape (3,); use index_copy()"),
    (lambda t: t.take_along_dim([[0], [0], [0]], 1), ShapeError,
     "take_along_dim: shapes (2, 3) and (3, 1) do not broadcast along all but dim 1"),
    (lambda t: t.take_along_dim([0], 1), ShapeError,
     "take_along_dim: indices of shape (1,) and a tensor of shape (2, 3) differ in dims"),
    (lambda t: t.put([0, 1], sw.zeros(3)), ShapeError,
     "put: an index of shape (2,) wants as many elements, got the shape (3,)"),
    (lambda t: t.put([6], sw.zeros(1)), IndexRangeError,
     "put: index[0] is 6, out of range for dim 0 of size 6; wanted -6 to 5"),
    (lambda t: t.index_put(([2],), 1.0), IndexRangeError,
     "index_put to a tensor of shape (2, 3): index 2 is out of bounds for axis 0 with size 2"),
    (lambda t: t.masked_select(t), DTypeError,
     "masked_select: the mask must be booleans, not float32; compare first"),
    (lambda t: t.masked_scatter(t > -1.0, sw.zeros(2)), ShapeError,
     "masked_scatter: the mask has 6 places, and the source only 2 elements"),
    (lambda t: t.masked_select(sw.tensor([True, False])), ShapeError,
     "masked_select: shapes (2, 3) and (2,) do not broadcast together"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS, ids=[message[:28] for *_, message in ERRORS])
def test_what_does_not_fit_is_named(call: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call(sw.zeros(2, 3))
    assert str(caught.value) == message


def test_empty_indices() -> None:
    t, none = sw.zeros(2, 3), np.zeros((0, 3), np.int64)
    assert t.gather(0, none).shape == (0, 3)
    assert t.scatter(0, none, sw.zeros(0, 3)).tolist() == t.tolist()
    assert t.index_select(1, []).shape == (2, 0)
    assert t.index_add(1, [], sw.zeros(2, 0)).tolist() == t.tolist()
    assert sw.zeros(0, 3).gather(0, none).shape == (0, 3)
    assert sw.zeros(0).take(np.zeros(0, int)).shape == (0,)
