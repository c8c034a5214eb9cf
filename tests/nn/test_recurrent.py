"""Recurrent layers against their equations, one sequence and one step at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import shardwise as sw
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn.layers.cell import GRUCell, LSTMCell, RNNCell
from shardwise.nn.layers.recurrent import GRU, LSTM, RNN
from shardwise.nn.sequence import PackedSequence, pack_padded_sequence, pad_packed_sequence
from shardwise.tensor import row_window

RNG = np.random.default_rng(0)
N, T, D, H = 3, 5, 4, 6
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "tanh": (RNN, {}),
    "relu": (RNN, {"nonlinearity": "relu"}),
    "gru": (GRU, {}),
    "lstm": (LSTM, {}),
    "projected": (LSTM, {"proj_size": 2}),
}
SHAPES = [
    {}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True, "bias": False},
]  # fmt: skip


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def make(kind: str, **options: Any) -> Any:
    cls, more = KINDS[kind]
    layer = cls(D, H, dtype=np.float64, **more, **options)
    for p in layer.parameters():
        p.data[...] = RNG.standard_normal(p.shape) * 0.6
    return layer


def step(kind: str, w: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray, c: np.ndarray) -> Any:
    a = w["weight_ih"] @ x + w.get("bias_ih", 0.0)
    b = w["weight_hh"] @ h + w.get("bias_hh", 0.0)
    if kind in ("tanh", "relu"):
        return (np.tanh(a + b) if kind == "tanh" else np.maximum(a + b, 0.0)), c
    if kind == "gru":
        (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
        new = np.tanh(an + expit(ar + br) * bn)
        update = expit(az + bz)
        return (1 - update) * new + update * h, c
    i, f, g, o = np.split(a + b, 4)
    c = expit(f) * c + expit(i) * np.tanh(g)
    h = expit(o) * np.tanh(c)
    return (w["weight_hr"] @ h if kind == "projected" else h), c


def by_steps(kind: str, layer: Any, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
    """One sequence (steps, features), states (layers * directions, features)."""
    h, c = h.copy(), c.copy()
    for n in range(layer.num_layers):
        outs = []
        for d in range(1 + layer.bidirectional):
            suffix = f"_l{n}{'_reverse' if d else ''}"
            w = {k.removesuffix(suffix): p.data for k, p in layer.named_parameters() if k.endswith(suffix)}
            row = n * (1 + layer.bidirectional) + d
            out = np.empty((len(x), h.shape[1]))
            for t in range(len(x))[:: -1 if d else 1]:
                h[row], c[row] = step(kind, w, x[t], h[row], c[row])
                out[t] = h[row]
            outs.append(out)
        x = np.concatenate(outs, -1)
    return x, h, c


def states(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = layer.num_layers * (1 + layer.bidirectional)
    return RNG.standard_normal((rows, N, layer.proj_size or H)), RNG.standard_normal((rows, N, H))


def hx_of(layer: Any, h: np.ndarray, c: np.ndarray) -> Any:
    return (sw.tensor(h), sw.tensor(c)) if isinstance(layer, LSTM) else sw.tensor(h)


def compare(layer: Any, last: Any, h: np.ndarray, c: np.ndarray) -> None:
    if isinstance(layer, LSTM):
        np.testing.assert_allclose(last[1].data, c, rtol=1e-10, atol=1e-12)
        last = last[0]
    np.testing.assert_allclose(last.data, h, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_against_the_equations(kind: str, options: dict[str, Any], batch_first: bool) -> None:
    layer = make(kind, batch_first=batch_first, **options)
    x = RNG.standard_normal((N, T, D))
    h, c = states(layer)
    want = [by_steps(kind, layer, x[n], h[:, n], c[:, n]) for n in range(N)]
    out, last = layer(sw.tensor(x if batch_first else x.swapaxes(0, 1)), hx_of(layer, h, c))
    out = out.data if batch_first else out.data.swapaxes(0, 1)
    np.testing.assert_allclose(out, np.stack([w[0] for w in want]), rtol=1e-10, atol=1e-12)
    compare(layer, last, *(np.stack([w[i] for w in want], 1) for i in (1, 2)))
    # one sequence alone, from states of zero
    alone, last = layer(sw.tensor(x[0]))
    wanted = by_steps(kind, layer, x[0], np.zeros_like(h[:, 0]), np.zeros_like(c[:, 0]))
    np.testing.assert_allclose(alone.data, wanted[0], rtol=1e-10, atol=1e-12)
    compare(layer, last, *wanted[1:])


@pytest.mark.parametrize("lengths", [[5, 3, 1], [2, 5, 4], [4, 4, 4]])
@pytest.mark.parametrize("options", SHAPES[1:])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_are_sequences_alone(kind: str, options: dict[str, Any], lengths: list[int]) -> None:
    layer = make(kind, **options)
    x = RNG.standard_normal((T, N, D))
    h, c = states(layer)
    packed = pack_padded_sequence(sw.tensor(x), lengths, enforce_sorted=False)
    out, last = layer(packed, hx_of(layer, h, c))
    assert isinstance(out, PackedSequence)
    padded, back = pad_packed_sequence(out, padding_value=-7.0)
    assert back.tolist() == lengths
    want = [by_steps(kind, layer, x[: lengths[n], n], h[:, n], c[:, n]) for n in range(N)]
    for n, length in enumerate(lengths):
        np.testing.assert_allclose(padded.data[:length, n], want[n][0], rtol=1e-10, atol=1e-12)
        assert (padded.data[length:, n] == -7.0).all()
    compare(layer, last, *(np.stack([w[i] for w in want], 1) for i in (1, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_lengths_are_those_of_sequences_alone(kind: str) -> None:
    layer = make(kind, bidirectional=True)
    x, lengths = RNG.standard_normal((T, N, D)), [2, 5, 3]
    weigh = RNG.standard_normal((T, N, 2 * (layer.proj_size or H)))
    apart = copy.deepcopy(layer)
    whole = sw.tensor(x, requires_grad=True)
    out, _ = layer(pack_padded_sequence(whole, lengths, enforce_sorted=False))
    (pad_packed_sequence(out)[0] * sw.tensor(weigh)).sum().backward()
    for n, length in enumerate(lengths):
        one = sw.tensor(x[:length, n], requires_grad=True)
        (apart(one)[0] * sw.tensor(weigh[:length, n])).sum().backward()
        np.testing.assert_allclose(whole.grad.data[:length, n], one.grad.data, rtol=1e-9, atol=1e-12)
        assert not whole.grad.data[length:, n].any()
    for a, b in zip(layer.parameters(), apart.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.data, b.grad.data, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("kind", "cell"), [("tanh", RNNCell), ("relu", RNNCell), ("gru", GRUCell), ("lstm", LSTMCell)]
)
@pytest.mark.parametrize("bias", [True, False])
def test_cells(kind: str, cell: Any, bias: bool) -> None:
    options = {"nonlinearity": "relu"} if kind == "relu" else {}
    layer = cell(D, H, bias=bias, dtype=np.float64, **options)
    w = {name: p.data for name, p in layer.named_parameters()}
    x, h, c = RNG.standard_normal((N, D)), RNG.standard_normal((N, H)), RNG.standard_normal((N, H))
    want = [step(kind, w, x[n], h[n], c[n]) for n in range(N)]
    hx = (sw.tensor(h), sw.tensor(c)) if kind == "lstm" else sw.tensor(h)
    out = layer(sw.tensor(x), hx)
    if kind == "lstm":
        np.testing.assert_allclose(out[1].data, [w[1] for w in want], rtol=1e-11)
        out = out[0]
    np.testing.assert_allclose(out.data, [w[0] for w in want], rtol=1e-11)
    zero = step(kind, w, x[0], np.zeros(H), np.zeros(H))
    alone = layer(sw.tensor(x[0]))
    np.testing.assert_allclose((alone[0] if kind == "lstm" else alone).data, zero[0], rtol=1e-11)


def test_large_inputs_saturate_without_a_warning() -> None:
    for kind in KINDS:
        layer = make(kind).float()
        x = sw.tensor(np.full((2, 1, D), 1e4, np.float32), requires_grad=True)
        out, _ = layer(x)
        out.sum().backward()
        assert np.isfinite(x.grad.data).all()


def test_dropout_lies_between_the_layers() -> None:
    layer = make("gru", num_layers=2, dropout=0.5)
    x = sw.tensor(RNG.standard_normal((T, N, D)))
    sw.manual_seed(0)
    first, second = layer(x)[0].data, layer(x)[0].data
    assert not np.allclose(first, second)
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].data, layer(x)[0].data)
    one = make("gru", dropout=0.5)
    np.testing.assert_array_equal(one(x)[0].data, one(x)[0].data)  # there is nothing between


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_masks_of_dropout_are_those_of_the_batch(kind: str, batch_first: bool) -> None:
    x = sw.tensor(RNG.standard_normal((4, 5, D)))
    layer = make(kind, num_layers=2, dropout=0.5, batch_first=batch_first)

    def run(rows: slice) -> np.ndarray:
        sw.manual_seed(3)
        out, _ = layer(x[rows] if batch_first else x[rows].transpose(0, 1))
        result: np.ndarray = (out if batch_first else out.transpose(0, 1)).numpy(force=True)
        return result

    whole = run(slice(0, 4))
    assert not np.allclose(whole[:2], whole[2:])
    for start in (0, 2):
        with row_window(start, 2):
            part = run(slice(start, start + 2))
        np.testing.assert_allclose(part, whole[start : start + 2], rtol=1e-5, atol=1e-6)


def test_names_first_values_and_repr() -> None:
    sw.manual_seed(0)
    layer = LSTM(D, 25, 2, bidirectional=True, proj_size=3)
    names = [f"{n}_l{k}{d}" for k in (0, 1) for d in ("", "_reverse")
             for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")]  # fmt: skip
    assert list(layer.state_dict()) == names
    assert layer.weight_ih_l1.shape == (100, 6)
    assert [len(w) for w in layer.all_weights] == [5] * 4
    bounds = [np.abs(p.data).max() for p in layer.parameters()]
    assert 0.19 < max(bounds) <= 0.2
    assert repr(layer) == "LSTM(4, 25, proj_size=3, num_layers=2, bidirectional=True)"
    assert repr(GRU(2, 3, bias=False, batch_first=True)) == "GRU(2, 3, bias=False, batch_first=True)"
    assert repr(RNNCell(2, 3, nonlinearity="relu")) == "RNNCell(2, 3, nonlinearity=relu)"
    layer.flatten_parameters()


def test_refused() -> None:
    layer = LSTM(D, H, batch_first=True)
    needs = (
        "LSTM needs an input of shape (batch, steps, 4), (steps, 4) or a PackedSequence, of at least one "
        "step; got shape "
    )
    assert message(ShapeError, lambda: layer(sw.ones(2, 3, 5))) == needs + "(2, 3, 5)"
    assert message(ShapeError, lambda: layer(sw.ones(2, 0, 4))) == needs + "(2, 0, 4)"
    h, c = sw.ones(1, 2, H), sw.ones(1, 2, 5)
    assert message(ShapeError, lambda: layer(sw.ones(2, 3, 4), (h, c))) == (
        "LSTM: the states must have shapes (1, 2, 6), (1, 2, 6), (layers and directions, batch, features); "
        "got (1, 2, 6), (1, 2, 5)"
    )
    assert message(DTypeError, lambda: layer(sw.ones(2, 3, 4), h)) == (
        "LSTM: hx must be a pair of tensors (h, c), not Tensor"
    )
    assert message(DTypeError, lambda: layer(sw.ones(2, 3, 4, dtype=np.float64))).startswith(
        "LSTM: wanted floating tensors of one dtype, got input float64, weight_ih_l0 float32"
    )
    assert message(ArgumentError, lambda: LSTM(2, 3, proj_size=3)) == (
        "LSTM needs hidden_size and num_layers of at least 1, and a proj_size below hidden_size; got 3, 1 "
        "and 3"
    )
    assert message(ArgumentError, lambda: RNN(2, 3, nonlinearity="sin")) == (  # type: ignore[arg-type]
        "RNN: nonlinearity must be 'tanh' or 'relu', got 'sin'"
    )
    cell = GRUCell(D, H)
    assert message(ShapeError, lambda: cell(sw.ones(2, 3))) == (
        "GRUCell needs an input of shape (batch, 4) or (4,), got (2, 3)"
    )
    assert message(ShapeError, lambda: cell(sw.ones(2, 4), sw.ones(2, 4))) == (
        "GRUCell: states must have shape (2, 6), got (2, 4)"
    )
