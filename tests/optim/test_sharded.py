"""Optimizers and clipping on sharded parameters: what one rank gets, without a collective per step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.backend.errors import ModuleError
from shardwise.collectives import expect, run_threads
from shardwise.dtensor import DTensor, distribute_tensor
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.mesh import DeviceMesh

SHAPES = {"a": (5, 4), "b": (7,), "c": (2, 3), "d": (3, 5)}
OPTIMIZERS = {
    "SGD": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
    "AdamW": lambda ps: optim.AdamW(ps, lr=0.1, amsgrad=True),
    "RMSprop": lambda ps: optim.RMSprop(ps, lr=0.1, centered=True, momentum=0.5),
    "Adagrad": lambda ps: optim.Adagrad(ps, lr=0.1),
    "Lion": lambda ps: optim.Lion(ps, lr=0.1),
    "LAMB": lambda ps: optim.LAMB(ps, lr=0.1, weight_decay=0.1),
    "Adafactor": lambda ps: optim.Adafactor(ps, lr=0.1),
}
QUIET = ("SGD", "AdamW", "RMSprop", "Adagrad", "Lion")


def values(step: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(step)
    return {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}


def parameters(ranks: int) -> dict[str, Any]:
    """On several meshes, one of two axes, and one plain."""
    found: dict[str, Any] = {n: nn.Parameter(sw.tensor(x)) for n, x in values(0).items()}
    if ranks:
        line = DeviceMesh("cpu", list(range(ranks)))
        grid = DeviceMesh("cpu", np.arange(ranks).reshape(-1, 2 if ranks % 2 == 0 else 1))
        for name, mesh, placements in (("a", line, ["S(0)"]), ("b", line, ["R"]), ("c", grid, ["S(1)", "R"])):
            found[name] = distribute_tensor(found[name], mesh, placements, src_data_rank=None)
    return found


def give_gradients(ps: dict[str, Any], step: int) -> None:
    for name, x in values(step).items():
        p = ps[name]
        grad = sw.tensor(x)
        p.grad = (
            distribute_tensor(grad, p.device_mesh, p.placements, src_data_rank=None)
            if isinstance(p, DTensor)
            else grad
        )


def numpy(p: Any) -> np.ndarray:
    array: np.ndarray = p.detach().numpy()
    return array


def trained(name: str, ranks: int) -> tuple[dict[str, np.ndarray], Any, dict[str, Any]]:
    ps = parameters(ranks)
    opt = OPTIMIZERS[name](list(ps.values()))
    for step in (1, 2, 3):
        give_gradients(ps, step)
        if name in QUIET:
            with expect(others=0):
                opt.step()
        else:
            opt.step()
    return {n: numpy(p) for n, p in ps.items()}, opt, ps


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_steps_are_those_of_wholes(name: str, ranks: int) -> None:
    wanted, _, _ = trained(name, 0)

    def body(_: int) -> None:
        found, opt, ps = trained(name, ranks)
        for key, array in found.items():
            np.testing.assert_allclose(array, wanted[key], rtol=1e-13, atol=1e-15)
        again = OPTIMIZERS[name](list(ps.values()))
        again.load_state_dict(opt.state_dict())
        give_gradients(ps, 4)
        before = {n: p.detach().clone() for n, p in ps.items()}
        opt.step()
        after = {n: numpy(p) for n, p in ps.items()}
        with sw.no_grad():
            for n, p in ps.items():
                p.copy_(before[n])
        again.step()
        for n, p in ps.items():
            np.testing.assert_array_equal(numpy(p), after[n])

    run_threads(body, ranks)


def test_a_state_says_how_it_lies_and_loads_into_other_layouts() -> None:
    _, plain, _ = trained("AdamW", 0)

    def body(_: int) -> None:
        _, opt, ps = trained("AdamW", 2)
        state = opt.state_dict()["state"]
        assert isinstance(state[0]["exp_avg"], ShardedArray)
        assert state[0]["exp_avg"].layout is ps["a"].layout
        assert state[0]["exp_avg"].local.shape == ps["a"].data.local.shape
        wholes = parameters(0)
        other = OPTIMIZERS["AdamW"](list(wholes.values()))
        other.load_state_dict(opt.state_dict())  # from parts to wholes
        for p, q in zip(plain.state.values(), other.state.values(), strict=True):
            np.testing.assert_allclose(q["exp_avg"], p["exp_avg"], rtol=1e-13)
            assert type(q["exp_avg"]) is np.ndarray
        back = OPTIMIZERS["AdamW"](list(parameters(2).values()))
        back.load_state_dict(other.state_dict())  # and back
        for p, q in zip(opt.state.values(), back.state.values(), strict=True):
            np.testing.assert_array_equal(np.asarray(q["exp_avg_sq"]), np.asarray(p["exp_avg_sq"]))

    run_threads(body, 2)


def test_an_optimizer_of_ones_own_sees_wholes() -> None:
    class Descent(optim.Optimizer):
        def update(self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
            param -= group["lr"] * grad / np.max(np.abs(grad))

    def run(ranks: int) -> dict[str, np.ndarray]:
        ps = parameters(ranks)
        give_gradients(ps, 1)
        Descent(list(ps.values()), {"lr": 0.5}).step()
        return {n: numpy(p) for n, p in ps.items()}

    wanted = run(0)
    for found in run_threads(lambda _: run(3), 3):
        for n, array in found.items():
            np.testing.assert_allclose(array, wanted[n], rtol=1e-14)


def test_a_gradient_of_the_other_kind_is_refused() -> None:
    def body(_: int) -> None:
        ps = parameters(2)
        ps["a"].grad = sw.tensor(values(1)["a"])
        message = r"^SGD: a parameter of shape \(5, 4\) is sharded, and its grad is plain; assign a gradient"
        with pytest.raises(ModuleError, match=message):
            optim.SGD([ps["a"]], lr=0.1).step()

    run_threads(body, 2)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_norms_count_each_element_once(ranks: int, order: float) -> None:
    everything = np.concatenate([x.reshape(-1) for x in values(1).values()])
    wanted = np.linalg.norm(everything, order)

    def body(_: int) -> None:
        ps = parameters(ranks)
        give_gradients(ps, 1)
        lines = 0 if ranks == 1 else 1  # the line and the grid have the same ranks
        with expect(all_reduce=lines, others=0, max_bytes=64):
            total = nn.clip_grad_norm_(ps.values(), 0.5, order)
        np.testing.assert_allclose(total.item(), wanted, rtol=1e-14)
        for name, p in ps.items():
            np.testing.assert_allclose(numpy(p.grad), values(1)[name] * 0.5 / (wanted + 1e-6), rtol=1e-13)
        np.testing.assert_allclose(
            nn.get_total_norm([p.grad for p in ps.values()], order).item(), 0.5, rtol=1e-5
        )
        nn.clip_grad_value_(ps.values(), 0.01)
        assert max(np.abs(numpy(p.grad)).max() for p in ps.values()) == 0.01

    run_threads(body, ranks)


def test_terms_of_sums_are_added_before_they_are_measured() -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        weight = distribute_tensor(nn.Parameter(sw.ones(4)), mesh, ["R"], src_data_rank=None)
        weight.keep_grad = True
        x = distribute_tensor(sw.tensor(np.arange(12.0).reshape(3, 4).astype(np.float32)), mesh, ["S(0)"])
        (x * weight).sum().backward()
        assert weight.grad.layout.partial
        total = nn.clip_grad_norm_([weight], 1.0).item()
        np.testing.assert_allclose(total, np.linalg.norm(np.arange(12.0).reshape(3, 4).sum(0)), rtol=1e-6)
        assert not weight.grad.layout.partial
        np.testing.assert_allclose(np.linalg.norm(numpy(weight.grad)), 1.0, rtol=1e-5)

    run_threads(body, 3)
