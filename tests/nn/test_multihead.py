"""MultiheadAttention against its definition, head by head, with all options and masks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn.layers.attention import MultiheadAttention
from shardwise.tensor import gradcheck

RNG = np.random.default_rng(0)
N, Q, K, E, H = 3, 4, 6, 8, 2


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def make(**options: Any) -> MultiheadAttention:
    layer = MultiheadAttention(E, H, dtype=np.float64, **options)
    for p in layer.parameters():
        p.data[...] = RNG.standard_normal(p.shape)
    return layer


def arrays(layer: MultiheadAttention, batch_first: bool = True) -> list[np.ndarray]:
    """Query, key and value, batch first."""
    return [RNG.standard_normal((N, n, f)) for n, f in ((Q, E), (K, layer.kdim), (K, layer.vdim))]


def reference(
    layer: MultiheadAttention, q: np.ndarray, k: np.ndarray, v: np.ndarray, added: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and weights by the definition; `added` is (batch, heads, q, k), of numbers and -inf."""
    if layer.in_proj_weight is not None:
        weights = np.split(layer.in_proj_weight.data, 3)
    else:
        weights = [getattr(layer, f"{x}_proj_weight").data for x in "qkv"]
    biases = np.zeros((3, E)) if layer.in_proj_bias is None else layer.in_proj_bias.data.reshape(3, E)
    q, k, v = (x @ w.T + b for x, w, b in zip((q, k, v), weights, biases, strict=True))
    if layer.bias_k is not None:
        k = np.concatenate([k, np.broadcast_to(layer.bias_k.data, (N, 1, E))], 1)
        v = np.concatenate([v, np.broadcast_to(layer.bias_v.data, (N, 1, E))], 1)
    if layer.add_zero_attn:
        k, v = (np.concatenate([x, np.zeros((N, 1, E))], 1) for x in (k, v))
    added = np.pad(added, [(0, 0)] * 3 + [(0, k.shape[1] - added.shape[-1])])
    out, all_weights = [], []
    for head in range(H):
        part = slice(head * E // H, (head + 1) * E // H)
        scores = q[..., part] @ np.swapaxes(k[..., part], 1, 2) / math.sqrt(E // H)
        all_weights.append(softmax(scores + added[:, head], -1))
        out.append(all_weights[-1] @ v[..., part])
    bias = 0.0 if layer.out_proj.bias is None else layer.out_proj.bias.data
    return np.concatenate(out, -1) @ layer.out_proj.weight.data.T + bias, np.stack(all_weights, 1)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"kdim": 5, "vdim": 7, "add_zero_attn": True},
        {"kdim": 5, "bias": False, "add_bias_kv": True},
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_against_the_definition(options: dict[str, Any], masked: bool, batch_first: bool) -> None:
    layer = make(batch_first=batch_first, **options)
    given = arrays(layer)
    added = np.zeros((N, H, Q, K))
    masks: dict[str, sw.Tensor] = {}
    if masked:
        padding = RNG.random((N, K)) < 0.3
        padding[:, 0] = False
        pairs = RNG.standard_normal((N * H, Q, K))
        added = pairs.reshape(N, H, Q, K) + np.where(padding, -np.inf, 0.0)[:, None, None]
        masks = {"key_padding_mask": sw.tensor(padding), "attn_mask": sw.tensor(pairs)}
    want, weights = reference(layer, *given, added)
    inputs = [sw.tensor(x if batch_first else np.swapaxes(x, 0, 1)) for x in given]
    out, got = layer(*inputs, **masks, average_attn_weights=False)
    out = out if batch_first else out.transpose(0, 1)
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(got.detach().numpy(), weights, rtol=1e-11, atol=1e-13)
    out, mean = layer(*inputs, **masks)
    np.testing.assert_allclose(mean.detach().numpy(), weights.mean(1), rtol=1e-11, atol=1e-13)
    fused, none = layer(*inputs, **masks, need_weights=False)
    assert none is None
    np.testing.assert_allclose(fused.detach().numpy(), out.detach().numpy(), rtol=1e-11, atol=1e-12)


def test_one_tensor_for_all_is_one_product() -> None:
    layer = make()
    x, y = (sw.tensor(RNG.standard_normal((Q, N, E)), requires_grad=True) for _ in range(2))
    copies = [sw.tensor(x.data), sw.tensor(y.data), sw.tensor(y.data)]
    want = layer(*copies)[0]
    np.testing.assert_allclose(layer(x, y, y)[0].data, want.data, rtol=1e-12, atol=1e-13)
    same = layer(*[sw.tensor(x.data) for _ in range(3)])[0]
    np.testing.assert_allclose(layer(x, x, x)[0].data, same.data, rtol=1e-12, atol=1e-13)
    for call in (lambda: layer(x, y, y), lambda: layer(x, x, x)):
        layer.zero_grad()
        (call()[0] ** 2).sum().backward()
        first = layer.in_proj_weight.grad.data
        assert first.shape == (3 * E, E)
        assert np.abs(first).min() > 0


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", ["pairs", "numbers", "heads"])
def test_hidden_pairs_have_no_influence(kind: str, need_weights: bool) -> None:
    layer = make(batch_first=True)
    q, k, v = arrays(layer)
    pairs = np.zeros((Q, K), bool)
    pairs[:, 3] = True
    mask = {
        "pairs": pairs, "numbers": np.where(pairs, -np.inf, 0.0), "heads": np.tile(pairs, (N * H, 1, 1)),
    }[kind]  # fmt: skip
    want, _ = layer(*map(sw.tensor, (q, np.delete(k, 3, 1), np.delete(v, 3, 1))))
    out, weights = layer(*map(sw.tensor, (q, k, v)), attn_mask=sw.tensor(mask), need_weights=need_weights)
    np.testing.assert_allclose(out.data, want.data, rtol=1e-11, atol=1e-12)
    assert not need_weights or not weights.data[..., 3].any()


@pytest.mark.parametrize("need_weights", [False, True])
def test_causal(need_weights: bool) -> None:
    layer = make(batch_first=True)
    x = sw.tensor(RNG.standard_normal((N, Q, E)))
    mask = sw.tensor(np.triu(np.ones((Q, Q), bool), 1))
    want = layer(x, x, x, attn_mask=mask)[0].data
    for options in ({"is_causal": True}, {"is_causal": True, "attn_mask": mask}):
        out = layer(x, x, x, need_weights=need_weights, **options)[0]
        np.testing.assert_allclose(out.data, want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, sw.bfloat16, np.float64])
def test_masks_may_be_floats_of_another_dtype(dtype: Any, need_weights: bool) -> None:
    layer = MultiheadAttention(4, 2).to(dtype)
    x = sw.randn(3, 2, 4).to(dtype)
    hidden = sw.ones(3, 3).bool().triu(1)
    padding = sw.tensor([[False, False, True], [False, False, False]])
    want, _ = layer(x, x, x, padding, need_weights, hidden)
    for least in (-np.inf, -1e9):
        masks = [sw.where(mask, least, 0.0).float() for mask in (padding, hidden)]
        got, _ = layer(x, x, x, masks[0], need_weights, masks[1])
        assert got.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(got.float().numpy(force=True), want.float().numpy(force=True))


def test_a_mask_of_floats_under_autocast() -> None:
    layer, x = nn.TransformerEncoderLayer(4, 2, 8), sw.randn(3, 2, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    with sw.autocast(dtype=sw.bfloat16):
        out = layer(x, mask, sw.zeros(2, 3).bool())
    assert out.shape == (3, 2, 4)
    assert np.isfinite(out.float().numpy(force=True)).all()


def test_one_sequence() -> None:
    layer = make()
    x = RNG.standard_normal((Q, E))
    padding = np.array([False, True, False, False])
    want, weights = layer(*[sw.tensor(x[:, None])] * 3, key_padding_mask=sw.tensor(padding[None]))
    for shape in ((Q,), (1, Q)):
        out, got = layer(*[sw.tensor(x)] * 3, key_padding_mask=sw.tensor(padding.reshape(shape)))
        assert (out.shape, got.shape) == ((Q, E), (Q, Q))
        np.testing.assert_allclose(out.data, want.data[:, 0], rtol=1e-12)
        np.testing.assert_allclose(got.data, weights.data[0], rtol=1e-12)


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_query_without_keys_gets_the_bias(need_weights: bool) -> None:
    layer = make(batch_first=True)
    q, k, v = (sw.tensor(x, requires_grad=True) for x in arrays(layer))
    padding = np.zeros((N, K), bool)
    padding[1] = True
    out, _ = layer(q, k, v, sw.tensor(padding), need_weights=need_weights)
    np.testing.assert_allclose(out.data[1], np.tile(layer.out_proj.bias.data, (Q, 1)), rtol=1e-12)
    out.sum().backward()
    assert not k.grad.data[1].any()
    assert all(np.isfinite(x.grad.data).all() for x in (q, k, v))


def test_gradients() -> None:
    layer = MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, dtype=np.float64)
    x, y = (sw.tensor(RNG.standard_normal((2, 1, 4)), requires_grad=True) for _ in range(2))
    bias = sw.tensor(RNG.standard_normal((2, 2)), requires_grad=True)
    for weights in (False, True):
        assert gradcheck(
            lambda x, y, b, w=weights: layer(x, y, y, attn_mask=b, need_weights=w)[0], [x, y, bias]
        )


def test_dropout_in_training_only() -> None:
    layer = make(dropout=0.5)
    x = sw.tensor(RNG.standard_normal((Q, N, E)))
    sw.manual_seed(0)
    dropped = layer(x, x, x)[1].data
    assert (dropped == 0.0).any()
    layer.eval()
    whole = layer(x, x, x, average_attn_weights=False)[1].data
    np.testing.assert_allclose(whole.sum(-1), 1.0, rtol=1e-12)


def test_names_and_first_values() -> None:
    sw.manual_seed(0)
    assert list(MultiheadAttention(E, H, add_bias_kv=True).state_dict()) == [
        "in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias",
    ]  # fmt: skip
    assert list(MultiheadAttention(E, H, kdim=3, bias=False).state_dict()) == [
        "q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight",
    ]  # fmt: skip
    layer = MultiheadAttention(64, 4)
    bound = math.sqrt(6 / (64 + 3 * 64))  # Glorot's, for the three projections together
    assert 0.98 * bound < np.abs(layer.in_proj_weight.data).max() <= bound
    assert not layer.in_proj_bias.data.any()
    assert not layer.out_proj.bias.data.any()


def test_refused() -> None:
    layer = MultiheadAttention(E, H, batch_first=True)
    x, y = sw.ones(N, Q, E), sw.ones(N, K, E)
    needs = (
        f"MultiheadAttention needs query (batch, q, {E}), key (batch, k, {E}) and value (batch, k, {E}), or "
        "all without the batch; got "
    )
    assert message(ShapeError, lambda: layer(x, y, x)) == needs + "(3, 4, 8), (3, 6, 8), (3, 4, 8)"
    assert message(ShapeError, lambda: layer(x[:2], y, y)) == needs + "(2, 4, 8), (3, 6, 8), (3, 6, 8)"
    assert message(ShapeError, lambda: layer(x[0], y, y)) == needs + "(4, 8), (3, 6, 8), (3, 6, 8)"
    assert message(ShapeError, lambda: layer(x, y, y, attn_mask=sw.ones(K, Q))) == (
        "MultiheadAttention: attn_mask must have shape (q, k) = (4, 6) or (batch * heads, q, k) = (6, 4, 6), "
        "got (6, 4)"
    )
    assert message(ShapeError, lambda: layer(x, y, y, sw.ones(N, Q))) == (
        "MultiheadAttention: key_padding_mask must have shape (batch, k) = (3, 6), got (3, 4)"
    )
    assert message(DTypeError, lambda: layer(x, y, y, attn_mask=sw.zeros(Q, K, dtype=np.int64))) == (
        "MultiheadAttention: attn_mask must be bool (True is left out) or floating (added to the scores), "
        "not int64; compare, as in mask != 0"
    )
    assert message(ArgumentError, lambda: MultiheadAttention(7, 2)) == (
        "MultiheadAttention: embed_dim=7 does not part into num_heads=2 heads"
    )
