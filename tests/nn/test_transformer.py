"""The transformer's layers and stacks against their formulas in NumPy."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, softmax

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, ShapeError
from shardwise.nn import functional as F
from shardwise.nn.layers.transformer import Transformer, TransformerEncoder
from shardwise.nn.layers.transformer_layer import TransformerDecoderLayer, TransformerEncoderLayer
from shardwise.tensor import row_window

RNG = np.random.default_rng(0)
N, S, T, E, H = 2, 5, 4, 6, 2
Weights = dict[str, np.ndarray]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def randomised(module: nn.Module) -> Any:
    for p in module.parameters():
        p.data[...] = RNG.standard_normal(p.shape) * 0.5
    return module


def weights_of(module: nn.Module, prefix: str = "") -> Weights:
    return {n.removeprefix(prefix): p.data for n, p in module.named_parameters() if n.startswith(prefix)}


def attention(w: Weights, name: str, q: np.ndarray, k: np.ndarray, hidden: np.ndarray | None) -> np.ndarray:
    """Batch first; `hidden` is (q, k) or (batch, 1, q or 1, k)."""
    parts = np.split(w[f"{name}.in_proj_weight"], 3)
    biases = np.split(w.get(f"{name}.in_proj_bias", np.zeros(3 * E)), 3)
    heads = [
        (x @ p.T + b).reshape(N, -1, H, E // H).swapaxes(1, 2)
        for x, p, b in zip((q, k, k), parts, biases, strict=True)
    ]
    scores = heads[0] @ heads[1].swapaxes(-1, -2) / math.sqrt(E // H)
    out = softmax(scores if hidden is None else np.where(hidden, -1e300, scores), -1) @ heads[2]
    joined = out.swapaxes(1, 2).reshape(N, -1, E)
    return joined @ w[f"{name}.out_proj.weight"].T + w.get(f"{name}.out_proj.bias", 0.0)


def norm(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * w[f"{name}.weight"] + w.get(f"{name}.bias", 0.0)


def feed(w: Weights, x: np.ndarray, activation: str) -> np.ndarray:
    inner = x @ w["linear1.weight"].T + w.get("linear1.bias", 0.0)
    inner = np.maximum(inner, 0.0) if activation == "relu" else inner * ndtr(inner)
    return inner @ w["linear2.weight"].T + w.get("linear2.bias", 0.0)


def residual(
    w: Weights, norm_first: bool, x: np.ndarray, parts: list[Callable[..., np.ndarray]]
) -> np.ndarray:
    for i, part in enumerate(parts, 1):
        x = x + part(norm(w, f"norm{i}", x)) if norm_first else norm(w, f"norm{i}", x + part(x))
    return x


OPTIONS = [
    {}, {"norm_first": True}, {"bias": False}, {"activation": "gelu"},
    {"activation": F.gelu, "norm_first": True},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_encoder_layer(options: dict[str, Any], batch_first: bool) -> None:
    layer = randomised(
        TransformerEncoderLayer(E, H, 7, 0.0, batch_first=batch_first, dtype=np.float64, **options)
    )
    w, x = weights_of(layer), RNG.standard_normal((N, S, E))
    pairs, padding = np.triu(np.ones((S, S), bool), 1), np.zeros((N, S), bool)
    padding[1, 3:] = True
    kind = "gelu" if "activation" in options else "relu"
    for hidden, masks in (
        (None, {}),
        (pairs, {"src_mask": sw.tensor(pairs)}),
        (pairs, {"is_causal": True}),
        (
            pairs | padding[:, None, None],
            {"src_mask": sw.tensor(pairs), "src_key_padding_mask": sw.tensor(padding)},
        ),
    ):
        want = residual(
            w, layer.norm_first, x,
            [lambda y, h=hidden: attention(w, "self_attn", y, y, h), lambda y: feed(w, y, kind)],
        )  # fmt: skip
        out = layer(sw.tensor(x if batch_first else x.swapaxes(0, 1)), **masks).data
        np.testing.assert_allclose(out if batch_first else out.swapaxes(0, 1), want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
def test_decoder_layer(options: dict[str, Any]) -> None:
    layer = randomised(TransformerDecoderLayer(E, H, 7, 0.0, batch_first=True, dtype=np.float64, **options))
    w, x, memory = weights_of(layer), RNG.standard_normal((N, T, E)), RNG.standard_normal((N, S, E))
    own, padding = np.triu(np.ones((T, T), bool), 1), np.zeros((N, S), bool)
    padding[0, 2:] = True
    other = padding[:, None, None] | np.eye(T, S, dtype=bool)
    kind = "gelu" if "activation" in options else "relu"
    want = residual(
        w, layer.norm_first, x,
        [
            lambda y: attention(w, "self_attn", y, y, own),
            lambda y: attention(w, "multihead_attn", y, memory, other),
            lambda y: feed(w, y, kind),
        ],
    )  # fmt: skip
    out = layer(
        sw.tensor(x), sw.tensor(memory), tgt_is_causal=True,
        memory_mask=sw.tensor(np.eye(T, S, dtype=bool)), memory_key_padding_mask=sw.tensor(padding),
    )  # fmt: skip
    np.testing.assert_allclose(out.data, want, rtol=1e-11, atol=1e-12)


def test_an_encoder_is_its_layers_in_a_row() -> None:
    layer = TransformerEncoderLayer(E, H, 7, 0.0, dtype=np.float64)
    encoder = randomised(TransformerEncoder(layer, 3, nn.LayerNorm(E, dtype=np.float64)))
    x = sw.tensor(RNG.standard_normal((S, N, E)))
    want = x
    for one in encoder.layers:
        want = one(want, is_causal=True)
    for mask in (
        Transformer.generate_square_subsequent_mask(S, dtype=np.float64),
        sw.ones(S, S).triu(1) != 0,
    ):
        np.testing.assert_allclose(encoder(x, mask).data, encoder.norm(want).data, rtol=1e-12)
    assert encoder.layers[0].linear1.weight is not encoder.layers[1].linear1.weight
    assert [n.split(".")[1] for n in encoder.state_dict() if "linear1.weight" in n] == ["0", "1", "2"]


def test_a_transformer_is_an_encoder_and_a_decoder() -> None:
    model = randomised(Transformer(E, H, 2, 2, 7, 0.0, norm_first=True, batch_first=True, dtype=np.float64))
    src, tgt = (sw.tensor(RNG.standard_normal((N, n, E))) for n in (S, T))
    memory = src
    for layer in model.encoder.layers:
        memory = layer(memory)
    memory = model.encoder.norm(memory)
    want = tgt
    for layer in model.decoder.layers:
        want = layer(want, memory, tgt_is_causal=True)
    out = model(src, tgt, tgt_mask=Transformer.generate_square_subsequent_mask(T, dtype=np.float64))
    np.testing.assert_allclose(out.data, model.decoder.norm(want).data, rtol=1e-12)
    alone = model(src[0], tgt[0], tgt_is_causal=True)
    np.testing.assert_allclose(alone.data, out.data[0], rtol=1e-11, atol=1e-13)


def test_every_parameter_learns() -> None:
    model = Transformer(E, H, 1, 1, 7, dtype=np.float64)
    out = model(*(sw.tensor(RNG.standard_normal((n, N, E))) for n in (S, T)))
    (out**2 * sw.tensor(RNG.standard_normal(out.shape))).sum().backward()
    assert all(p.grad is not None and np.abs(p.grad.data).max() > 0 for p in model.parameters())


@pytest.mark.parametrize("norm_first", [True, False])
def test_masks_of_dropout_are_those_of_the_batch(norm_first: bool) -> None:
    x, memory = sw.randn(4, 6, 8), sw.randn(4, 3, 8)
    first = nn.TransformerDecoderLayer(8, 2, 16, 0.4, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, 0.4, batch_first=True, norm_first=norm_first)

    def run(batch_first: bool, rows: slice) -> np.ndarray:
        decoder = nn.TransformerDecoderLayer(8, 2, 16, 0.4, batch_first=batch_first, norm_first=norm_first)
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.4, batch_first=batch_first, norm_first=norm_first)
        decoder.load_state_dict(first.state_dict())
        layer.load_state_dict(encoder.state_dict())
        sw.manual_seed(3)
        inputs = [t[rows] if batch_first else t[rows].transpose(0, 1) for t in (x, memory)]
        with row_window(rows.start, 2) if rows.stop is not None else nullcontext():
            out = decoder(layer(inputs[0]), inputs[1])
        result: np.ndarray = (out if batch_first else out.transpose(0, 1)).numpy(force=True)
        return result

    whole = run(True, slice(0, None))
    for batch_first in (True, False):
        parts = [run(batch_first, slice(start, start + 2)) for start in (0, 2)]
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-5, atol=1e-6)


def test_an_activation_that_is_a_module_is_one() -> None:
    layer = TransformerDecoderLayer(E, H, 7, activation=nn.GELU())
    assert isinstance(dict(layer.named_children())["activation"], nn.GELU)
    assert copy.deepcopy(layer).activation is not layer.activation


def test_the_causal_mask() -> None:
    mask = Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0.0, -math.inf, -math.inf], [0.0, 0.0, -math.inf], [0.0, 0.0, 0.0]]
    assert mask.dtype == np.float32


def test_first_values_and_names() -> None:
    sw.manual_seed(0)
    model = Transformer(32, 4, 1, 1, 64)
    bound = math.sqrt(6 / (32 + 64))
    assert 0.95 * bound < np.abs(model.encoder.layers[0].linear1.weight.data).max() <= bound
    assert [n for n in model.state_dict() if n.startswith("decoder.layers.0.norm")] == [
        f"decoder.layers.0.norm{i}.{name}" for i in (1, 2, 3) for name in ("weight", "bias")
    ]
    assert "decoder.norm.bias" in model.state_dict()


def test_refused() -> None:
    assert message(ArgumentError, lambda: TransformerEncoderLayer(E, H, activation="swish")) == (
        "activation must be 'relu', 'gelu' or a function of a tensor, got 'swish'"
    )
    model = Transformer(E, H, 1, 1, 7)
    assert message(ShapeError, lambda: model(sw.ones(S, 2, E), sw.ones(T, 3, E))) == (
        "Transformer needs src and tgt of one batch size and 6 features, got (5, 2, 6) and (4, 3, 6) "
        "(batch_first=False)"
    )
