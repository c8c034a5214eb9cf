"""Random numbers of DTensors are those of one rank, bit for bit, however they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, Shard, distribute_tensor, from_local
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F
from shardwise.tensor import row_window

LAYOUTS: dict[int, list[Any]] = {
    1: [["R"], ["S(0)"], ["S(1)"], ["P"], [Shard(1, (0, 2, 3, 0))]],
    2: [["S(0)", "S(1)"], ["S(1)", "S(1)"], ["S(0)", "S(0)"], ["P", "S(1)"], ["R", "S(0)"]],
}


def meshes() -> list[DeviceMesh]:
    return [DeviceMesh("cpu", [0, 1, 2, 3]), DeviceMesh("cpu", [[0, 1], [2, 3]])]


FILLINGS: dict[str, Callable[[Any], Any]] = {
    "uniform_": lambda x: x.uniform_(-1.0, 3.0),
    "normal_": lambda x: x.normal_(1.0, 2.0),
    "log_normal_": lambda x: x.log_normal_(),
    "exponential_": lambda x: x.exponential_(2.0),
    "cauchy_": lambda x: x.cauchy_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "bernoulli_": lambda x: x.bernoulli_(0.4),
    "bernoulli_ of chances": lambda x: x.bernoulli_(x.detach().clone()),
    "random_": lambda x: x.random_(3, 90),
    "rand_like": lambda x: sw.rand_like(x),
    "randn_like": lambda x: sw.randn_like(x),
    "randn_like complex": lambda x: sw.randn_like(x, dtype=np.complex64),
    "randint_like": lambda x: sw.randint_like(x, 5, 100),
    "bernoulli": lambda x: sw.bernoulli(x),
    "bernoulli method": lambda x: x.bernoulli(),
    "multinomial": lambda x: sw.multinomial(x, 3),
    "dropout": lambda x: F.dropout(x, 0.4),
    "dropout again": lambda x: F.dropout(x, 0.4) + F.dropout(x, 0.4),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.4, training=True),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True),
    "init.uniform_": lambda x: nn.init.uniform_(x, -1, 1),
    "init.normal_": lambda x: nn.init.normal_(x, 1.0, 0.5),
    "init.trunc_normal_": lambda x: nn.init.trunc_normal_(x),
    "init.xavier_uniform_": lambda x: nn.init.xavier_uniform_(x),
    "init.kaiming_normal_": lambda x: nn.init.kaiming_normal_(x),
    "init.orthogonal_": lambda x: nn.init.orthogonal_(x),
    "init.sparse_": lambda x: nn.init.sparse_(x, 0.5),
    "init.eye_": lambda x: nn.init.eye_(x),
    "init.constant_": lambda x: nn.init.constant_(x, 2.5),
}


@pytest.mark.parametrize("name", sorted(FILLINGS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_do_not_depend_on_the_layout(name: str, dtype: Any) -> None:
    draw = FILLINGS[name]
    given = np.linspace(0.05, 0.95, 7 * 5).reshape(7, 5).astype(dtype)
    sw.manual_seed(11)
    wanted = draw(sw.tensor(given)).numpy()

    def body(rank: int) -> None:
        for mesh in meshes():
            for placements in LAYOUTS[mesh.ndim]:
                x = distribute_tensor(given.copy(), mesh, placements, src_data_rank=None)
                sw.manual_seed(11)
                got = draw(x)
                assert isinstance(got, DTensor), placements
                values = got.full_tensor().numpy()
                assert values.dtype == wanted.dtype
                np.testing.assert_array_equal(values, wanted, err_msg=f"{mesh} {placements}")

    run_threads(body, 4)


CHANNELS: dict[str, Callable[[Any], Any]] = {
    "dropout1d": lambda x: F.dropout1d(x[..., 0], 0.4),
    "dropout2d": lambda x: F.dropout2d(x, 0.4),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, dim=1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x * 2, x + 1, dropout_p=0.4),
    "attention in groups": lambda x: F.scaled_dot_product_attention(
        x, x[:, :2] * 2, x[:, :2] + 1, dropout_p=0.4, enable_gqa=True
    ),
}


@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_channels_and_heads(name: str) -> None:
    run = CHANNELS[name]
    given = np.random.default_rng(0).standard_normal((3, 4, 5, 6))

    def outcome(x: Any) -> tuple[Any, Any]:
        sw.manual_seed(4)
        y = run(x)
        y.square().sum().backward()
        return y.detach(), x.grad

    wanted, slope = [each.numpy() for each in outcome(sw.tensor(given, requires_grad=True))]

    def body(rank: int) -> None:
        layouts = {
            1: [["S(0)"], ["S(1)"], ["S(2)"], ["S(3)"], ["P"]],
            2: [["S(0)", "S(1)"], ["S(1)", "S(3)"]],
        }
        for mesh in meshes():
            for placements in layouts[mesh.ndim]:
                x = distribute_tensor(given, mesh, placements, src_data_rank=None).requires_grad_()
                y, grad = outcome(x)
                np.testing.assert_allclose(
                    y.full_tensor().numpy(), wanted, rtol=1e-10, err_msg=str(placements)
                )
                np.testing.assert_allclose(grad.full_tensor().numpy(), slope, rtol=1e-9, atol=1e-12)

    run_threads(body, 4)


def test_terms_of_a_sum_pass_dropout() -> None:
    def body(rank: int) -> Any:
        mesh = DeviceMesh("cpu", [0, 1])
        terms = from_local(np.arange(6.0) * (rank + 1), mesh, ["P"])
        sw.manual_seed(1)
        y = F.dropout(terms)
        assert str(y.placements[0]) == "P"
        return y.full_tensor().numpy()

    sw.manual_seed(1)
    wanted = F.dropout(sw.tensor(np.arange(6.0) * 3)).numpy()
    np.testing.assert_array_equal(run_threads(body, 2)[0], wanted)


def test_row_windows_and_modules() -> None:
    """A layer of a model on a slice of the batch drops what it drops of all, sharded over another axis."""
    given = np.ones((8, 6), np.float32)
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    sw.manual_seed(2)
    wanted = model(sw.tensor(given)).numpy()

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], ("dp", "tp"))
        tp = mesh["tp"]
        layers = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
        rows = slice(0, 4) if rank < 2 else slice(4, 8)
        sw.manual_seed(2)
        with row_window(rows.start, 4):
            y = layers(distribute_tensor(given[rows], tp, ["S(1)"]))
        np.testing.assert_array_equal(y.full_tensor().numpy(), wanted[rows])

    run_threads(body, 4)


def test_recompute_draws_the_same() -> None:
    given = np.linspace(-1, 1, 24).reshape(4, 6)
    sw.manual_seed(9)
    x = sw.tensor(given, requires_grad=True)
    F.dropout(x.exp()).sum().backward()
    wanted = x.grad.numpy()  # type: ignore[union-attr]

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        y = distribute_tensor(sw.tensor(given, requires_grad=True), mesh, ["S(1)"])
        sw.manual_seed(9)
        sw.recompute(lambda t: F.dropout(t.exp()), y).sum().backward()
        np.testing.assert_array_equal(y.grad.full_tensor().numpy(), wanted)

    run_threads(body, 3)
