"""scaled_dot_product_attention against its formula, with all its masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from scipy.special import softmax

import shardwise as sw
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn import functional as F
from shardwise.tensor import gradcheck
from shardwise.tensor.signature import FlopCounter
from tolerance import tolerance

RNG = np.random.default_rng(1)


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def make(lead: tuple[int, ...], q: int, k: int, d: int = 4, e: int = 3) -> tuple[np.ndarray, ...]:
    return tuple(RNG.standard_normal((*lead, *s)) for s in ((q, d), (k, d), (k, e)))


def formula(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, scale: float | None = None
) -> np.ndarray:
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -1e300) if mask.dtype == bool else scores + mask
    return softmax(scores, -1) @ v


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
@pytest.mark.parametrize(("q", "k"), [(5, 5), (3, 7), (7, 3), (1, 4)])
@pytest.mark.parametrize("causal", [False, True])
def test_plain_and_causal(lead: tuple[int, ...], q: int, k: int, causal: bool, dtype: type) -> None:
    arrays = [a.astype(dtype) for a in make(lead, q, k)]
    out = F.scaled_dot_product_attention(*map(sw.tensor, arrays), is_causal=causal)
    visible = np.arange(k) <= np.arange(q)[:, None] if causal else np.ones((q, k), bool)
    want = formula(*(a.astype(np.float64) for a in arrays), visible)
    np.testing.assert_allclose(out.numpy(), want, rtol=0, atol=4 * tolerance(dtype, k))
    assert out.dtype == dtype


def test_scale() -> None:
    arrays = make((2,), 3, 4)
    out = F.scaled_dot_product_attention(*map(sw.tensor, arrays), scale=0.1)
    np.testing.assert_allclose(out.numpy(), formula(*arrays, scale=0.1), rtol=1e-12)


@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (3, 1), (5,), (2, 1, 3, 5), (2, 4, 3, 5), ()])
def test_masks_broadcast(shape: tuple[int, ...]) -> None:
    arrays = make((2, 4), 3, 5)
    tensors = [sw.tensor(a) for a in arrays]
    added = RNG.standard_normal(shape)
    out = F.scaled_dot_product_attention(*tensors, attn_mask=sw.tensor(added))
    np.testing.assert_allclose(out.numpy(), formula(*arrays, mask=np.asarray(added)), rtol=1e-10, atol=1e-14)
    visible = RNG.random(shape) < 0.6
    if shape and shape[-1] == 5:
        visible[..., 0] = True
    else:
        visible = np.ones(shape, bool)
    out = F.scaled_dot_product_attention(*tensors, attn_mask=sw.tensor(visible))
    np.testing.assert_allclose(out.numpy(), formula(*arrays, mask=visible), rtol=1e-10, atol=1e-14)


def test_a_query_that_sees_no_key_gets_zeros_and_no_gradient() -> None:
    tensors = [sw.tensor(a, requires_grad=True) for a in make((), 3, 4)]
    visible = np.ones((3, 4), bool)
    visible[1] = False
    out = F.scaled_dot_product_attention(*tensors, attn_mask=sw.tensor(visible))
    assert out[1].tolist() == [0.0] * 3
    out.sum().backward()
    assert tensors[0].grad.data[1].tolist() == [0.0] * 4
    assert all(np.isfinite(t.grad.data).all() for t in tensors)


def test_a_row_of_minus_infinity_gets_zeros_and_no_gradient() -> None:
    tensors = [sw.tensor(a, requires_grad=True) for a in make((2,), 3, 4)]
    added = np.zeros((3, 4))
    added[1] = -np.inf
    added[0, 2] = -np.inf
    mask = sw.tensor(added, requires_grad=True)
    out = F.scaled_dot_product_attention(*tensors, attn_mask=mask)
    want = formula(*(t.data for t in tensors), mask=added == 0)
    want[:, 1] = 0.0
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-12, atol=1e-15)
    out.sum().backward()
    assert not tensors[0].grad.data[:, 1].any()
    for t in (*tensors, mask):
        assert np.isfinite(t.grad.data).all()


@pytest.mark.parametrize("mask", [None, "bool", "heads", "added", "causal"])
@pytest.mark.parametrize("fewer", [1, 2, 6])
def test_grouped_heads_are_repeated_heads(fewer: int, mask: str | None) -> None:
    q = RNG.standard_normal((2, 6, 3, 4))
    k, v = RNG.standard_normal((2, fewer, 5, 4)), RNG.standard_normal((2, fewer, 5, 2))
    options = {
        None: {},
        "bool": {"attn_mask": sw.tensor(np.tri(3, 5, 1, dtype=bool))},
        "heads": {"attn_mask": sw.tensor(np.broadcast_to(np.tri(3, 5, 1, dtype=bool), (6, 3, 5)))},
        "added": {"attn_mask": sw.tensor(RNG.standard_normal((1, 3, 5)))},
        "causal": {"is_causal": True},
    }[mask]
    attend = F.scaled_dot_product_attention
    out = attend(*map(sw.tensor, (q, k, v)), enable_gqa=True, **options)
    repeated = [np.repeat(x, 6 // fewer, 1) for x in (k, v)]
    np.testing.assert_allclose(
        out.numpy(), attend(*map(sw.tensor, (q, *repeated)), **options).numpy(), rtol=1e-12
    )


def test_leading_dims_broadcast() -> None:
    q, k, v = (RNG.standard_normal(s) for s in ((2, 1, 3, 4), (5, 6, 4), (6, 2)))
    out = F.scaled_dot_product_attention(*map(sw.tensor, (q, k, v)))
    np.testing.assert_allclose(out.numpy(), formula(q, k, v), rtol=1e-12)
    assert out.shape == (2, 5, 3, 2)


def test_without_keys_or_queries() -> None:
    tensors = [sw.tensor(a, requires_grad=True) for a in make((2,), 3, 0)]
    for options in ({}, {"is_causal": True}, {"dropout_p": 0.5}):
        out = F.scaled_dot_product_attention(*tensors, **options)
        np.testing.assert_array_equal(out.detach().numpy(), np.zeros((2, 3, 3)))
        out.sum().backward()
        assert not tensors[0].grad.data.any()
    assert F.scaled_dot_product_attention(*map(sw.tensor, make((2,), 0, 3))).shape == (2, 0, 3)


def test_gradients_of_all_paths() -> None:
    q, k, v = (sw.tensor(a, requires_grad=True) for a in make((2,), 3, 4))
    bias = sw.tensor(RNG.standard_normal((3, 4)), requires_grad=True)
    visible = sw.tensor(RNG.random((3, 4)) < 0.7)
    attend = F.scaled_dot_product_attention
    assert gradcheck(lambda q, k, v: attend(q, k, v, is_causal=True), (q, k, v))
    assert gradcheck(lambda q, k, v: attend(q, k, v, attn_mask=visible), (q, k, v))
    assert gradcheck(lambda q, k, v, b: attend(q, k, v, attn_mask=b), (q, k, v, bias))


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_drops_weights(causal: bool) -> None:
    arrays = make((2,), 6, 6, e=6)
    arrays = (*arrays[:2], np.broadcast_to(np.eye(6), (2, 6, 6)).copy())  # the output is the weights
    tensors = [sw.tensor(a) for a in arrays]
    whole = F.scaled_dot_product_attention(*tensors, is_causal=causal).numpy()
    sw.manual_seed(0)
    out = F.scaled_dot_product_attention(*tensors, is_causal=causal, dropout_p=0.5).numpy()
    kept = out != 0
    np.testing.assert_allclose(out[kept], 2 * whole[kept], rtol=1e-12)
    assert 0.2 < kept[whole != 0].mean() < 0.8


def test_refused() -> None:
    q, k, v = (sw.tensor(a) for a in make((2,), 3, 4))
    attend = F.scaled_dot_product_attention
    needs = "attention needs query (..., q, d), key (..., k, d), value (..., k, e); got "
    assert message(ShapeError, lambda: attend(q, v, v)) == f"{needs}(2, 3, 4), (2, 4, 3), (2, 4, 3)"
    assert message(ShapeError, lambda: attend(q, k, q)) == f"{needs}(2, 3, 4), (2, 4, 4), (2, 3, 4)"
    assert message(ShapeError, lambda: attend(q[0, 0], k, v)) == f"{needs}(4,), (2, 4, 4), (2, 4, 3)"
    assert message(ShapeError, lambda: attend(q, k[0, 0], v)) == f"{needs}(2, 3, 4), (4,), (2, 4, 3)"
    assert message(DTypeError, lambda: attend(q, k.astype(np.float32), v)) == (
        "attention: wanted floating tensors of one dtype, got query float64, key float32, value float64; "
        "cast the data with astype(), or the module with to()"
    )
    ones = sw.ones(3, 4, dtype=np.float64)
    assert message(ArgumentError, lambda: attend(q, k, v, attn_mask=ones, is_causal=True)) == (
        "attention: give attn_mask or is_causal, not both; a causal mask is ones(q, k).tril() != 0"
    )
    assert message(ArgumentError, lambda: attend(q, k, v, dropout_p=1.5)) == (
        "attention: dropout_p must be a probability between 0 and 1, got 1.5"
    )
    assert message(ShapeError, lambda: attend(sw.ones(6, 3, 4), sw.ones(4, 5, 4), sw.ones(4, 5, 2))) == (
        "attention: the leading dims of query, key and value do not broadcast: got (6, 3, 4), (4, 5, 4), "
        "(4, 5, 2); key and value with fewer heads need enable_gqa=True"
    )
    grouped = [sw.ones(6, 3, 4), sw.ones(4, 5, 4), sw.ones(4, 5, 2)]
    assert message(ShapeError, lambda: attend(*grouped, enable_gqa=True)) == (
        "attention with enable_gqa needs query (..., heads, q, d), key and value (..., fewer, k, d), heads "
        "being a multiple of fewer; got (6, 3, 4), (4, 5, 4), (4, 5, 2)"
    )
    for mask in (sw.ones(4, 4), sw.ones(1, 1, 3, 4)):
        assert message(ShapeError, lambda m=mask: attend(q, k, v, attn_mask=m)) == (
            f"attention: attn_mask of shape {mask.shape} does not broadcast to the scores (..., q, k) of "
            "shape "
            "(2, 3, 4)"
        )
    for dtype in (np.float16, np.int64):
        assert message(DTypeError, lambda d=dtype: attend(q, k, v, attn_mask=ones.astype(d))) == (
            "attention: attn_mask must be bool (True takes part), float32 or float64 (added to the scores), "
            f"not {np.dtype(dtype)}; compare, as in mask != 0, or cast with astype()"
        )
    z = q.astype(np.complex128)
    assert message(DTypeError, lambda: attend(z, z, z)) == (
        "attention: query must be real, got complex128; take its parts with real and imag, or abs()"
    )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_a_mask_of_float32_is_added_in_the_dtype_of_the_query(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    q, k, v = (sw.tensor(a.astype(kind), requires_grad=True) for a in make((2,), 3, 4))
    added = sw.tensor(RNG.standard_normal((3, 4)).astype(np.float32), requires_grad=True)
    out = F.scaled_dot_product_attention(q, k, v, added)
    same = F.scaled_dot_product_attention(q, k, v, added.astype(kind))
    np.testing.assert_array_equal(out.detach().numpy(), same.detach().numpy())
    out.sum().backward()
    assert (out.dtype, added.grad.dtype) == (kind, np.float32)


def test_every_option_is_one_op() -> None:
    q, k, v = (sw.tensor(a) for a in make((2,), 3, 4))
    grouped = [sw.ones(6, 3, 4), sw.ones(2, 5, 4), sw.ones(2, 5, 2)]
    with FlopCounter() as counter:
        F.scaled_dot_product_attention(q, k, v, sw.tensor(np.ones((3, 4), bool)), 0.5)
        F.scaled_dot_product_attention(q, k, v, sw.ones(4), scale=-2.0)
    assert set(counter.by_op) == {"Attention", "Cast"}
    with FlopCounter() as counter:
        F.scaled_dot_product_attention(*grouped, is_causal=True, enable_gqa=True)
    assert counter.by_op["Attention"] == 2 * 6 * 3 * 5 * (4 + 2)


@pytest.mark.parametrize("gqa", [False, True])
def test_ranks_drop_what_one_rank_would(gqa: bool) -> None:
    q = RNG.standard_normal((6, 4, 5, 3))
    k, v = RNG.standard_normal((2, 6, 2 if gqa else 4, 7, 3))
    attend = partial(F.scaled_dot_product_attention, dropout_p=0.4, enable_gqa=gqa)
    sw.manual_seed(3)
    whole = attend(*map(sw.tensor, (q, k, v))).numpy()
    for first, rows in ((0, 2), (2, 4)):
        sw.manual_seed(3)
        with sw.random.row_window(first, rows):
            part = attend(*(sw.tensor(x[first : first + rows]) for x in (q, k, v))).numpy()
        np.testing.assert_allclose(part, whole[first : first + rows], rtol=1e-12)


def test_dropout_is_that_of_the_weights() -> None:
    arrays = make((2,), 6, 7)
    tensors = [sw.tensor(a) for a in arrays]
    sw.manual_seed(5)
    out = F.scaled_dot_product_attention(*tensors, dropout_p=0.4)
    sw.manual_seed(5)
    weights = F.dropout(((tensors[0] @ tensors[1].mT) * 0.5).softmax(-1), 0.4)
    np.testing.assert_allclose(out.numpy(), (weights @ tensors[2]).numpy(), rtol=1e-12, atol=1e-15)


def test_a_long_sequence_keeps_no_weights() -> None:
    length = 2048
    q, k, v = (sw.tensor(a.astype(np.float32), requires_grad=True) for a in make((1,), length, length))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()  # compiled
    with sw.track_memory() as memory:
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    assert memory.peak < 2 * length * length  # half of the weights, in bytes
