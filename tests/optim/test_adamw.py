"""AdamW against its published formula, and what every optimizer shares."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.errors import ArgumentError, ModuleError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


class Published:
    """Algorithm 2 of Loshchilov and Hutter 2019, line by line, for one array."""

    def __init__(self, theta: np.ndarray, lr: float, betas: tuple[float, float], eps: float, decay: float):
        self.theta, self.lr, self.betas, self.eps, self.decay = theta.copy(), lr, betas, eps, decay
        self.t, self.m, self.v = 0, np.zeros_like(theta), np.zeros_like(theta)

    def step(self, g: np.ndarray) -> None:
        self.t += 1
        b1, b2 = self.betas
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g**2
        m_hat, v_hat = self.m / (1 - b1**self.t), self.v / (1 - b2**self.t)
        # with PyTorch's convention that the decay is multiplied by the learning rate
        self.theta = (
            self.theta - self.lr * m_hat / (np.sqrt(v_hat) + self.eps) - self.lr * self.decay * self.theta
        )


def parameter(*shape: int, seed: int = 0, dtype: Any = np.float64) -> nn.Parameter:
    return nn.Parameter(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def give(p: nn.Parameter, step: int) -> np.ndarray:
    """Set a gradient that is a function of the value and the step."""
    grad = np.sin(3 * p.data + step) * 10.0 ** (step % 3 - 1)
    p.grad = sw.tensor(grad.astype(p.dtype))
    return grad


OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.1, "betas": (0.0, 0.5), "eps": 1e-3, "weight_decay": 0.3},
    {"lr": 0.01, "weight_decay": 0.0, "betas": (0.5, 0.0)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("contiguous", [True, False])
def test_fifty_steps_of_the_published_formula(options: dict[str, Any], contiguous: bool) -> None:
    full = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2} | options
    p = parameter(7, 5)
    if not contiguous:
        p = nn.Parameter(p.detach().transpose(0, 1))
    reference = Published(p.data, full["lr"], full["betas"], full["eps"], full["weight_decay"])
    opt = optim.AdamW([p], **options)
    place = p.data
    for step in range(50):
        reference.step(give(p, step))
        opt.step()
        np.testing.assert_allclose(p.data, reference.theta, rtol=1e-11, atol=1e-13)
    assert p.data is place


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_parameters_stay_near(dtype: type) -> None:
    p = parameter(40, dtype=dtype)
    reference = Published(p.data.astype(np.float64), 0.01, (0.9, 0.99), 1e-4, 0.1)
    opt = optim.AdamW([p], lr=0.01, betas=(0.9, 0.99), eps=1e-4, weight_decay=0.1)
    for step in range(20):
        grad = np.full(40, np.sin(step)).astype(dtype)
        p.grad = sw.tensor(grad)
        reference.step(grad.astype(np.float64))
        opt.step()
    assert p.dtype == dtype
    np.testing.assert_allclose(p.data, reference.theta, rtol=0, atol=1e-5 if dtype == np.float32 else 2e-2)


def test_groups_have_options_of_their_own() -> None:
    a, b, c = parameter(3), parameter(4, seed=1), parameter(2, seed=2)
    opt = optim.AdamW([{"params": [a], "lr": 0.1}, {"params": b, "weight_decay": 0.5}], lr=0.01)
    opt.add_param_group({"params": [c], "betas": (0.5, 0.5), "eps": 1e-2})
    references = [
        Published(a.data, 0.1, (0.9, 0.999), 1e-8, 1e-2),
        Published(b.data, 0.01, (0.9, 0.999), 1e-8, 0.5),
        Published(c.data, 0.01, (0.5, 0.5), 1e-2, 1e-2),
    ]
    for step in range(5):
        for p, reference in zip((a, b, c), references, strict=True):
            reference.step(give(p, step))
        opt.step()
    for p, reference in zip((a, b, c), references, strict=True):
        np.testing.assert_allclose(p.data, reference.theta, rtol=1e-12)
    assert repr(opt) == (
        "AdamW(\n"
        "  group 0: 1 parameters, lr=0.1, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01\n"
        "  group 1: 1 parameters, lr=0.01, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.5\n"
        "  group 2: 1 parameters, lr=0.01, betas=(0.5, 0.5), eps=0.01, weight_decay=0.01\n"
        ")"
    )


def test_parameters_without_gradient_are_left_alone() -> None:
    a, b = parameter(3), parameter(3, seed=1)
    before = b.data.copy()
    opt = optim.AdamW(iter([a, b]))
    give(a, 0)
    opt.step()
    np.testing.assert_array_equal(b.data, before)
    assert list(opt.state) == [a]
    give(b, 0)
    opt.step()
    assert (opt.state[a]["step"], opt.state[b]["step"]) == (2, 1)  # each counts its own steps


def test_a_closure_computes_the_loss_with_grad() -> None:
    p = parameter(3)
    opt = optim.AdamW([p])

    def closure() -> sw.Tensor:
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    want = float((p.data**2).sum())
    with sw.no_grad():
        loss = opt.step(closure)
    assert loss.item() == want
    assert opt.step() is None
    assert opt.state[p]["step"] == 2


def test_zero_grad() -> None:
    p, q = parameter(3), parameter(3)
    opt = optim.AdamW([p, q])
    give(p, 1)
    grad = p.grad
    opt.zero_grad(set_to_none=False)
    assert p.grad is grad
    assert p.grad.tolist() == [0.0] * 3
    assert q.grad is None
    opt.zero_grad()
    assert p.grad is None


def test_a_step_between_forward_and_backward_is_caught() -> None:
    p = parameter(3)
    opt = optim.AdamW([p])
    loss = (p * p).sum()
    give(p, 0)
    opt.step()
    with pytest.raises(sw.errors.AutogradError, match=r"input 0 of Mul was written in place"):
        loss.backward()


# ---- saving


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_state_continues_to_the_last_bit(dtype: type) -> None:
    def make(seed: int) -> tuple[list[nn.Parameter], optim.AdamW]:
        ps = [parameter(4, 3, seed=seed, dtype=dtype), parameter(5, seed=seed + 1, dtype=dtype)]
        return ps, optim.AdamW([{"params": ps[:1], "lr": 0.1}, {"params": ps[1:]}], lr=seed + 1.0)

    ps, opt = make(0)
    for step in range(5):
        give(ps[0], step)
        opt.step()  # the second one has no state yet
    state = copy.deepcopy(opt.state_dict())
    assert [g["params"] for g in state["param_groups"]] == [[0], [1]]
    assert sorted(state["state"]) == [0]
    others, resumed = make(7)
    for p, q in zip(ps, others, strict=True):
        q.data[...] = p.data
    resumed.load_state_dict(state)
    assert [g["lr"] for g in resumed.param_groups] == [0.1, 1.0]
    assert resumed.state[others[0]]["exp_avg"] is not state["state"][0]["exp_avg"]  # a copy
    for step in range(5, 10):
        for group, o in ((ps, opt), (others, resumed)):
            for p in group:
                give(p, step)
            o.step()
    for p, q in zip(ps, others, strict=True):
        np.testing.assert_array_equal(p.data, q.data)
    assert resumed.state[others[0]]["step"] == 10


def test_the_state_of_a_parameter_without_dims_is_copied_too() -> None:
    p, q = nn.Parameter(np.array(1.0)), nn.Parameter(np.array(1.0))
    opt, resumed = optim.AdamW([p]), optim.AdamW([q])
    p.grad = sw.tensor(np.array(2.0))
    opt.step()
    resumed.load_state_dict(opt.state_dict())
    mine, theirs = opt.state[p]["exp_avg"], resumed.state[q]["exp_avg"]
    assert mine == theirs
    assert not np.shares_memory(mine, theirs)


def test_states_that_do_not_fit() -> None:
    opt = optim.AdamW([parameter(3), parameter(2)])
    for p in opt.param_groups[0]["params"]:
        give(p, 0)
    opt.step()
    before = copy.deepcopy(opt.state_dict())
    assert message(ModuleError, lambda: opt.load_state_dict({"lr": 1})) == (
        'AdamW: wanted a state_dict() of an optimizer, with "state" and "param_groups"; got '
        "a dict of ['lr']"
    )
    other = optim.AdamW([{"params": [parameter(3)]}, {"params": [parameter(2)]}])
    assert message(ModuleError, lambda: opt.load_state_dict(other.state_dict())) == (
        "AdamW: the state is of an optimizer with groups of [1, 1] parameters, but this one has [2]"
    )
    swapped = optim.AdamW([parameter(2), parameter(3)])
    for p in swapped.param_groups[0]["params"]:
        give(p, 0)
    swapped.step()
    assert message(ModuleError, lambda: opt.load_state_dict(swapped.state_dict())) == (
        "AdamW: the state of parameter 0: exp_avg has shape (2,), but the parameter has (3,)"
    )
    foreign = copy.deepcopy(before)
    foreign["param_groups"][0]["momentum"] = 0.9
    foreign["param_groups"][0]["lr"] = 5.0
    assert message(ModuleError, lambda: opt.load_state_dict(foreign)) == (
        "AdamW: the state is of another optimizer: it has the options momentum"
    )
    assert opt.param_groups[0]["lr"] == 1e-3  # nothing was changed
    for n, state in opt.state_dict()["state"].items():
        for key, value in state.items():
            np.testing.assert_array_equal(value, before["state"][n][key])


# ---- bad input


@pytest.mark.parametrize(
    "bad",
    [
        {"lr": -1.0},
        {"lr": float("nan")},
        {"eps": -1e-8},
        {"weight_decay": -0.1},
        {"betas": (1.0, 0.9)},
        {"betas": (0.9, -0.1)},
        {"betas": (0.9,)},
    ],
    ids=str,
)
def test_bad_options(bad: dict[str, Any]) -> None:
    o = {"lr": 1e-3, "eps": 1e-8, "weight_decay": 1e-2, "betas": (0.9, 0.999)} | bad
    expected = (
        "AdamW needs lr, eps, weight_decay >= 0 and two betas in [0, 1); got "
        f"lr={o['lr']}, eps={o['eps']}, weight_decay={o['weight_decay']}, betas={o['betas']}"
    )
    assert message(ArgumentError, lambda: optim.AdamW([parameter(1)], **bad)) == expected
    assert message(ArgumentError, lambda: optim.AdamW([{"params": [parameter(1)], **bad}])) == expected


def test_bad_parameters() -> None:
    p = parameter(2)
    make = optim.AdamW
    assert message(ModuleError, lambda: make([])) == "AdamW got no parameters"
    assert message(ModuleError, lambda: make(p)) == (
        "AdamW takes an iterable of tensors or of groups, not a Parameter; put it in a list"
    )
    assert message(ModuleError, lambda: make({"params": [p]})) == (
        "AdamW takes an iterable of tensors or of groups, not a dict; put it in a list"
    )
    assert (
        message(ModuleError, lambda: make([p, 3])) == "parameter 1 of group 0 of AdamW is a int, not a Tensor"
    )
    assert message(ModuleError, lambda: make(nn.Linear(1, 1).named_parameters())) == (
        "parameter 0 of group 0 of AdamW is a tuple, not a Tensor"
    )
    assert message(ModuleError, lambda: make([p * 2.0])) == (
        "parameter 0 of group 0 of AdamW, of shape (2,), was computed by an operation; only leaves can be "
        "changed"
    )
    twice = "parameter {} of group {} of AdamW, of shape (2,), is in the optimizer already; give each once"
    assert message(ModuleError, lambda: make([p, p])) == twice.format(1, 0)
    assert message(ModuleError, lambda: make([{"params": [p]}, {"params": [p]}])) == twice.format(0, 1)
    assert message(ModuleError, lambda: make([{"params": [p], "momentum": 1, "foreach": True}])) == (
        "AdamW has no option foreach, momentum; it has betas, eps, lr, weight_decay"
    )
    assert message(ModuleError, lambda: make([{"lr": 1}])) == (
        "AdamW: a group is a dict with \"params\" and options, got a dict of ['lr']"
    )
    assert message(ModuleError, lambda: make([{"params": [p]}, p])) == (
        'AdamW: a group is a dict with "params" and options, got a Parameter'
    )


def test_an_optimizer_defines_update() -> None:
    class Plain(optim.Optimizer):
        pass

    p = parameter(1)
    give(p, 0)
    assert message(NotImplementedError, optim.Optimizer([p], {}).step) == "Optimizer does not define update()"
    assert message(NotImplementedError, Plain([p], {"lr": 1}).step) == "Plain does not define update()"


def test_an_optimizer_of_one_s_own() -> None:
    class Descent(optim.Optimizer):
        def update(self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
            state["seen"] = state.get("seen", 0) + 1
            param -= group["lr"] * grad

    p = nn.Parameter(sw.tensor([1.0, 2.0]))
    opt = Descent([p], {"lr": 0.5})
    (p * p).sum().backward()
    opt.step()
    assert p.tolist() == [0.0, 0.0]
    again = Descent([p], {"lr": 1.0})
    again.load_state_dict(opt.state_dict())
    assert again.state[p] == {"seen": 1}
    assert again.param_groups[0]["lr"] == 0.5
