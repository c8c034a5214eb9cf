"""Embeddings and bags of them against loops over rows: padding, norms, frequencies, modes, offsets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise import nn
from shardwise.backend import ShapeArray
from shardwise.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F

RNG = np.random.default_rng(0)
INDEX = np.array([[1, 2, 0, 2], [4, 4, 1, 0], [3, 3, 3, 3]])
STARTS = np.array([0, 3, 3, 8])


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def table(rows: int = 5, dim: int = 3) -> sw.Tensor:
    return sw.tensor(RNG.standard_normal((rows, dim)), requires_grad=True)


def gradient(weight: sw.Tensor, out: sw.Tensor) -> np.ndarray:
    out.sum().backward()
    return weight.grad.numpy()


@pytest.mark.parametrize("padding", [0, 4, -1])
def test_padding_is_looked_up_and_does_not_learn(padding: int) -> None:
    weight = table()
    out = F.embedding(sw.tensor(INDEX), weight, padding)
    np.testing.assert_array_equal(out.detach().numpy(), weight.data[INDEX])
    counts = np.bincount(INDEX.ravel(), minlength=5).astype(float)
    counts[padding] = 0.0
    np.testing.assert_array_equal(gradient(weight, out), np.repeat(counts[:, None], 3, 1))


def test_frequency_divides_the_gradient() -> None:
    weight = table()
    out = F.embedding(sw.tensor(INDEX), weight, 3, scale_grad_by_freq=True)
    want = np.ones((5, 3))
    want[3] = 0.0
    np.testing.assert_allclose(gradient(weight, out), want, rtol=1e-15)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, np.inf])
def test_long_rows_are_shortened_in_place(order: float) -> None:
    weight = table()
    before = weight.data.copy()
    out = F.embedding(sw.tensor(INDEX[0]), weight, max_norm=0.8, norm_type=order)
    norms = np.linalg.norm(before, order, axis=1)
    want = before * np.where(norms > 0.8, 0.8 / (norms + 1e-7), 1.0)[:, None]
    want[[3, 4]] = before[[3, 4]]  # not looked up
    np.testing.assert_allclose(weight.data, want, rtol=1e-14)
    np.testing.assert_array_equal(out.detach().numpy(), weight.data[INDEX[0]])


def test_shortening_is_a_write() -> None:
    weight = table()
    loss = (weight * weight).sum()
    F.embedding(sw.tensor([0]), weight, max_norm=0.1)
    with pytest.raises(sw.errors.AutogradError, match="written in place"):
        loss.backward()


def test_the_layer() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-2, max_norm=1.0, dtype=np.float64)
    assert layer.padding_idx == 3
    assert layer.weight.data[3].tolist() == [0.0] * 3
    assert repr(layer) == "Embedding(5, 3, padding_idx=3, max_norm=1.0)"
    rows = RNG.standard_normal((4, 2))
    frozen = nn.Embedding.from_pretrained(sw.tensor(rows))
    assert not frozen.weight.requires_grad
    np.testing.assert_array_equal(frozen(sw.tensor([3, 0])).numpy(), rows[[3, 0]])
    assert nn.Embedding.from_pretrained(sw.tensor(rows), freeze=False, padding_idx=1).weight.requires_grad


# ---- bags


def by_loop(
    bags: list[np.ndarray],
    weight: np.ndarray,
    mode: str,
    padding: int | None,
    scales: list[np.ndarray] | None,
) -> np.ndarray:
    out = np.zeros((len(bags), weight.shape[1]))
    for i, bag in enumerate(bags):
        kept = np.ones(len(bag), bool) if padding is None else bag != padding
        rows = weight[bag][kept] * (1.0 if scales is None else scales[i][kept][:, None])
        if len(rows):
            out[i] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, axis=0)
    return out


@pytest.mark.parametrize("padding", [None, 0, 3])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_in_rows(mode: F.BagMode, padding: int | None) -> None:
    layer = nn.EmbeddingBag(5, 3, mode=mode, padding_idx=padding, dtype=np.float64)
    layer.weight.data[...] = RNG.standard_normal((5, 3))
    want = by_loop(list(INDEX), layer.weight.data, mode, padding, None)
    np.testing.assert_allclose(layer(sw.tensor(INDEX)).detach().numpy(), want, rtol=1e-14, atol=1e-15)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), mode=st.sampled_from(["sum", "mean", "max"]), last=st.booleans())
def test_bags_by_offsets(data: st.DataObject, mode: F.BagMode, last: bool) -> None:
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    padding = data.draw(st.sampled_from([None, 2]))
    rng = np.random.default_rng(sum(sizes))
    weight = rng.standard_normal((4, 2))
    bags = [rng.integers(0, 4, n) for n in sizes]
    weighed = mode == "sum" and data.draw(st.booleans())
    scales = [rng.standard_normal(n) for n in sizes] if weighed else None
    ends = np.cumsum([0, *sizes])
    out = F.embedding_bag(
        sw.tensor(np.concatenate(bags)),
        sw.tensor(weight),
        sw.tensor(ends if last else ends[:-1]),
        mode=mode,
        padding_idx=padding,
        include_last_offset=last,
        per_sample_weights=None if scales is None else sw.tensor(np.concatenate(scales)),
    )
    np.testing.assert_allclose(
        out.numpy(), by_loop(bags, weight, mode, padding, scales), rtol=1e-13, atol=1e-15
    )


def test_the_first_of_equal_elements_gets_the_gradient_of_a_maximum() -> None:
    weight = sw.tensor(np.array([[1.0], [2.0], [2.0]]), requires_grad=True)
    F.embedding_bag(sw.tensor([[0, 2, 1, 2]]), weight, mode="max").backward()
    assert weight.grad.tolist() == [[0.0], [0.0], [1.0]]


def test_a_bag_s_layer() -> None:
    layer = nn.EmbeddingBag(5, 2, norm_type=1.0, scale_grad_by_freq=True, padding_idx=1)
    assert repr(layer) == (
        "EmbeddingBag(5, 2, norm_type=1.0, scale_grad_by_freq=True, mode='mean', padding_idx=1)"
    )
    assert layer.weight.data[1].tolist() == [0.0, 0.0]
    rows = sw.tensor(RNG.standard_normal((4, 2)))
    bag = nn.EmbeddingBag.from_pretrained(rows, mode="sum")
    np.testing.assert_allclose(bag(sw.tensor([[0, 3]])).numpy(), [rows.data[0] + rows.data[3]])
    assert not bag.weight.requires_grad


def test_without_data() -> None:
    weight = sw.Tensor(ShapeArray((5, 3), np.float32), True)  # type: ignore[arg-type]
    flat, starts = (sw.Tensor(ShapeArray((n,), np.int64)) for n in (12, 4))  # type: ignore[arg-type]
    assert F.embedding_bag(flat, weight, starts).shape == (4, 3)
    for padding in (None, 1):
        largest = F.embedding_bag(flat, weight, starts, mode="max", padding_idx=padding)
        assert (largest.shape, largest.dtype) == ((4, 3), np.dtype(np.float32))
        largest.sum().backward()
    assert weight.grad is not None
    assert weight.grad.shape == (5, 3)


def test_refused() -> None:
    weight, index = table(), sw.tensor(INDEX)
    flat, starts = sw.tensor(INDEX.ravel()), sw.tensor(STARTS)
    bag = F.embedding_bag
    assert message(ArgumentError, lambda: F.embedding(index, weight, 5)) == (
        "embedding: padding_idx must name one of the 5 rows of weight, got 5"
    )
    assert message(ArgumentError, lambda: bag(index, weight, mode="min")) == (  # type: ignore[arg-type]
        "embedding_bag: mode must be 'sum', 'mean' or 'max', got 'min'"
    )
    assert message(ShapeError, lambda: bag(flat, weight)) == (
        "embedding_bag: input must have shape (bags, n) where offsets are left out, got (12,)"
    )
    assert message(ShapeError, lambda: bag(index, weight, starts)) == (
        "embedding_bag: input must have shape (n,) where offsets are given, got (3, 4)"
    )
    assert message(ArgumentError, lambda: bag(flat, weight, sw.tensor([0, 5, 4]))) == (
        "embedding_bag: offsets must rise from 0 to at most 12, the length of input; got [0, 5, 4]"
    )
    assert message(ShapeError, lambda: bag(flat, weight, sw.tensor([0.0]))) == (
        "embedding_bag: offsets must be integers of shape (bags,), one more with include_last_offset; got "
        "float32 of shape (1,)"
    )
    ones = sw.ones(3, 4, dtype=np.float64)
    assert message(ArgumentError, lambda: bag(index, weight, per_sample_weights=ones)) == (
        "embedding_bag: per_sample_weights go with mode='sum', not 'mean'"
    )
    assert message(ShapeError, lambda: bag(index, weight, mode="sum", per_sample_weights=ones[0])) == (
        "embedding_bag: per_sample_weights must have the shape of input, (3, 4), got (4,)"
    )
    assert message(DTypeError, lambda: bag(index, weight, mode="sum", per_sample_weights=ones.float())) == (
        "embedding_bag: wanted floating tensors of one dtype, got weight float64, per_sample_weights float32"
        "; cast the data with astype(), or the module with to()"
    )
    assert message(IndexRangeError, lambda: bag(index + 1, weight)).startswith(
        "embedding_bag: index[1, 0] is 5, and the table has 5 rows: wanted 0 to 4."
    )
    assert message(ShapeError, lambda: nn.Embedding.from_pretrained(weight[0])) == (
        "Embedding.from_pretrained: embeddings must be a Tensor of shape (rows, dim), got shape (3,)"
    )


def test_bilinear() -> None:
    layer = nn.Bilinear(3, 4, 2, dtype=np.float64)
    x, y = RNG.standard_normal((5, 3)), RNG.standard_normal((5, 4))
    want = np.einsum("ni,oij,nj->no", x, layer.weight.data, y) + layer.bias.data
    np.testing.assert_allclose(layer(sw.tensor(x), sw.tensor(y)).detach().numpy(), want, rtol=1e-13)
    assert repr(layer) == "Bilinear(in1_features=3, in2_features=4, out_features=2, bias=True)"
    assert np.abs(layer.weight.data).max() <= 3**-0.5
    assert message(ShapeError, lambda: layer(sw.tensor(x), sw.tensor(y[:4]))) == (
        "bilinear: inputs must have shapes (..., 3) and (..., 4) with the same leading dims, to fit weight "
        "(2, 3, 4); got (5, 3) and (4, 4)"
    )
