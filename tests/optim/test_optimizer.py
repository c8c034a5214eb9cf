"""What every optimizer shares: groups, steps, closures, hooks, bad input. AdamW stands for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.errors import ArgumentError, ModuleError, ShapeError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def parameter(*shape: int, seed: int = 0, dtype: Any = np.float64) -> nn.Parameter:
    return nn.Parameter(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def give(p: nn.Parameter, step: int) -> np.ndarray:
    """Set a gradient that is a function of the value and the step."""
    grad = np.sin(3 * p.data + step) * 10.0 ** (step % 3 - 1)
    p.grad = sw.tensor(grad.astype(p.dtype))
    return grad


def test_groups_have_options_of_their_own() -> None:
    a, b, c = parameter(3), parameter(4, seed=1), parameter(2, seed=2)
    alone = [nn.Parameter(p.data.copy()) for p in (a, b, c)]
    opt = optim.AdamW([{"params": [a], "lr": 0.1}, {"params": b, "weight_decay": 0.5}], lr=0.01)
    opt.add_param_group({"params": [c], "betas": (0.5, 0.5), "eps": 1e-2, "amsgrad": True})
    others = [
        optim.AdamW(alone[:1], lr=0.1),
        optim.AdamW(alone[1:2], lr=0.01, weight_decay=0.5),
        optim.AdamW(alone[2:], lr=0.01, betas=(0.5, 0.5), eps=1e-2, amsgrad=True),
    ]
    for step in range(5):
        for p, q, other in zip((a, b, c), alone, others, strict=True):
            give(p, step)
            give(q, step)
            other.step()
        opt.step()
    for p, q in zip((a, b, c), alone, strict=True):
        np.testing.assert_array_equal(p.data, q.data)
    tail = "maximize=False, decoupled_weight_decay=True"
    assert repr(opt) == (
        "AdamW(\n"
        "  group 0: 1 parameters, lr=0.1, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, amsgrad=False, "
        f"{tail}\n"
        "  group 1: 1 parameters, lr=0.01, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.5, amsgrad=False, "
        f"{tail}\n"
        "  group 2: 1 parameters, lr=0.01, betas=(0.5, 0.5), eps=0.01, weight_decay=0.01, amsgrad=True, "
        f"{tail}\n"
        ")"
    )


def test_parameters_may_come_with_their_names() -> None:
    model = nn.Linear(2, 3)
    opt = optim.SGD(model.named_parameters(), lr=0.1)
    assert opt.param_groups[0]["param_names"] == ["weight", "bias"]
    assert opt.param_groups[0]["params"] == [model.weight, model.bias]
    groups = optim.SGD([{"params": [("w", model.weight)], "lr": 1.0}, {"params": [("b", model.bias)]}])
    assert [g["param_names"] for g in groups.param_groups] == [["w"], ["b"]]
    assert "param_names" not in repr(groups)


def test_notes_of_the_user_stay_in_the_group() -> None:
    p = parameter(1)
    opt = optim.SGD([{"params": [p], "name": "head", "lr_scale": 0.1}])
    assert (opt.param_groups[0]["name"], opt.param_groups[0]["lr_scale"]) == ("head", 0.1)


def test_the_choices_of_pytorch_are_accepted() -> None:
    for kind in (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.NAdam, optim.LAMB):
        opt = kind([parameter(1)], foreach=True, fused=None, capturable=False, differentiable=False)
        assert not {"foreach", "fused"} & set(opt.param_groups[0])
    assert message(ArgumentError, lambda: optim.Adam([parameter(1)], differentiable=True)) == (
        "Adam: steps cannot be differentiated; leave differentiable away"
    )
    assert message(TypeError, lambda: optim.Adam([parameter(1)], learning_rate=1.0)) == (
        "Adam.__init__() got an unexpected keyword argument 'learning_rate'"
    )


def test_options_may_be_numbers_of_any_kind() -> None:
    for number in (0.25, np.float32(0.25), np.array(0.25), sw.tensor(0.25)):
        p = nn.Parameter(np.ones(2))
        p.grad = sw.tensor(np.ones(2))
        optim.SGD([p], lr=number).step()
        assert p.tolist() == [0.75, 0.75]


def test_parameters_that_are_exchanged_are_followed() -> None:
    p = parameter(3)
    opt = optim.SGD([p], lr=1.0, momentum=0.5)
    give(p, 0)
    opt.step()
    p.data = np.zeros(3)  # by the user, or by a loaded checkpoint
    p.grad = sw.tensor(np.zeros(3))
    before = opt.state[p]["momentum_buffer"].copy()
    opt.step()
    np.testing.assert_array_equal(p.data, -0.5 * before)
    p.data = np.zeros(4)
    p.grad = sw.tensor(np.zeros(4))
    assert message(sw.errors.ShapeError, opt.step) == (
        "sgd_momentum: a parameter has shape (4,), and its buffer has (3,); wanted the same."
    )


def test_momentum_may_begin_later() -> None:
    p = nn.Parameter(np.zeros(1))
    opt = optim.SGD([p], lr=1.0, dampening=0.5)
    seen = []
    for momentum in (0.0, 0.5, 0.5, 0.0, 0.5):
        opt.param_groups[0]["momentum"] = momentum
        p.grad = sw.tensor(np.ones(1))
        opt.step()
        seen.append(p.item())
    assert seen == [-1.0, -2.0, -3.0, -4.0, -5.0]  # buffers of 1, 1/2 + 1/2 and 1/2 + 1/2


def test_without_momentum_there_is_no_state() -> None:
    p = parameter(2)
    opt = optim.SGD([p])
    give(p, 0)
    opt.step()
    assert opt.state_dict()["state"] == {}


def test_one_parameter_may_be_two_times_in_memory() -> None:
    shared = np.ones(2)
    p, q = nn.Parameter(shared), nn.Parameter(shared)
    p.grad = q.grad = sw.tensor(np.ones(2))
    optim.SGD([p, q], lr=0.25).step()
    assert shared.tolist() == [0.5, 0.5]


def test_gradients_in_one_flat_array() -> None:
    flat = np.arange(6.0)
    p, q = nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros((2, 2)))
    p.grad_into(flat[:2])
    q.grad_into(flat[2:].reshape(2, 2))
    opt = optim.SGD([p, q], lr=1.0)
    (p.sum() + 2.0 * q.sum()).backward()
    opt.step()
    assert (p.tolist(), q.tolist()) == ([-1.0, -1.0], [[-2.0, -2.0]] * 2)
    opt.zero_grad(set_to_none=False)
    assert flat.tolist() == [0.0] * 6


def test_hooks_before_and_after_a_step() -> None:
    p = nn.Parameter(np.zeros(1))
    p.grad = sw.tensor(np.ones(1))
    opt = optim.SGD([p], lr=1.0)
    seen: list[Any] = []
    before = opt.register_step_pre_hook(lambda o, args, kwargs: seen.append((o, len(args), p.item())))
    after = opt.register_step_post_hook(lambda o, args, kwargs: seen.append((o, len(args), p.item())))
    opt.step()
    opt.step(lambda: None)
    assert seen == [(opt, 0, 0.0), (opt, 0, -1.0), (opt, 1, -1.0), (opt, 1, -2.0)]
    before.remove()
    after.remove()
    opt.step()
    assert len(seen) == 4


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


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adafactor", "LAMB"])
def test_gradients_of_another_shape_are_refused(name: str) -> None:
    p = parameter(2, 3)
    before = p.data.copy()
    p.grad = sw.ones(3, dtype=np.float64)
    opt = getattr(optim, name)([p], lr=0.1)
    assert message(ShapeError, opt.step) == (
        f"{name}: a parameter has shape (2, 3), and its grad has (3,); wanted the same"
    )
    np.testing.assert_array_equal(p.data, before)


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


def test_a_gradient_with_a_history_loses_it() -> None:
    p = parameter(2)
    (p * p * p).sum().backward(create_graph=True)
    assert p.grad is not None
    assert p.grad.requires_grad
    optim.SGD([p]).zero_grad(set_to_none=False)
    assert not p.grad.requires_grad
    assert p.grad.tolist() == [0.0, 0.0]


def test_a_step_between_forward_and_backward_is_caught() -> None:
    p = parameter(3)
    opt = optim.AdamW([p])
    loss = (p * p).sum()
    give(p, 0)
    opt.step()
    with pytest.raises(sw.errors.AutogradError, match=r"input 0 of Mul, .* was written in place"):
        loss.backward()


# ---- bad input


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("AdamW", {"lr": -1.0}, "AdamW needs lr >= 0, got -1.0"),
    ("AdamW", {"lr": float("nan")}, "AdamW needs lr >= 0, got nan"),
    ("AdamW", {"lr": "fast"}, "AdamW needs lr >= 0, got 'fast'"),
    ("Adam", {"eps": -1e-8}, "Adam needs eps >= 0, got -1e-08"),
    ("Adamax", {"weight_decay": -0.1}, "Adamax needs weight_decay >= 0, got -0.1"),
    ("NAdam", {"betas": (1.0, 0.9)}, "NAdam needs two betas in [0, 1), got (1.0, 0.9)"),
    ("RAdam", {"betas": (0.9, -0.1)}, "RAdam needs two betas in [0, 1), got (0.9, -0.1)"),
    ("Lion", {"betas": (0.9,)}, "Lion needs two betas in [0, 1), got (0.9,)"),
    ("LAMB", {"betas": 0.9}, "LAMB needs two betas in [0, 1), got 0.9"),
    ("NAdam", {"momentum_decay": -1}, "NAdam needs momentum_decay >= 0, got -1"),
    ("SGD", {"momentum": -0.5}, "SGD needs momentum >= 0, got -0.5"),
    (
        "SGD",
        {"nesterov": True},
        "SGD with nesterov needs a momentum and no dampening; got momentum=0.0, dampening=0.0",
    ),
    (
        "SGD",
        {"nesterov": True, "momentum": 0.9, "dampening": 0.1},
        "SGD with nesterov needs a momentum and no dampening; got momentum=0.9, dampening=0.1",
    ),
    ("Adagrad", {"lr_decay": -1.0}, "Adagrad needs lr_decay >= 0, got -1.0"),
    (
        "Adagrad",
        {"initial_accumulator_value": -1.0},
        "Adagrad needs initial_accumulator_value >= 0, got -1.0",
    ),
    ("RMSprop", {"alpha": -0.1}, "RMSprop needs alpha >= 0, got -0.1"),
    ("Adadelta", {"rho": 1.5}, "Adadelta needs rho <= 1, got 1.5"),
    ("Adadelta", {"rho": -0.5}, "Adadelta needs rho >= 0, got -0.5"),
    ("Adafactor", {"d": 0.5}, "Adafactor needs d >= 1, got 0.5"),
    ("Adafactor", {"beta2_decay": 0.5}, "Adafactor needs beta2_decay <= 0, got 0.5"),
    (
        "Adafactor",
        {"eps": (1e-3, -1.0)},
        "Adafactor needs two eps >= 0, of which the first may be None; got (0.001, -1.0)",
    ),
]


@pytest.mark.parametrize(("name", "bad", "expected"), BAD, ids=str)
def test_bad_options(name: str, bad: dict[str, Any], expected: str) -> None:
    kind = getattr(optim, name)
    assert message(ArgumentError, lambda: kind([parameter(1)], **bad)) == expected
    assert message(ArgumentError, lambda: kind([{"params": [parameter(1)], **bad}])) == expected


def test_bad_parameters() -> None:
    p = parameter(2)
    make = optim.AdamW
    assert message(ModuleError, lambda: make([])) == (
        "AdamW got no parameters; an iterator such as model.parameters() gives them once, so call it again "
        "for each use"
    )
    assert message(ModuleError, lambda: make(p)) == (
        "AdamW takes an iterable of tensors or of groups, not a Parameter; put it in a list"
    )
    assert message(ModuleError, lambda: make({"params": [p]})) == (
        "AdamW takes an iterable of tensors or of groups, not a dict; put it in a list"
    )
    assert (
        message(ModuleError, lambda: make([p, 3])) == "parameter 1 of group 0 of AdamW is a int, not a Tensor"
    )
    assert message(ModuleError, lambda: make([("p", p), parameter(1)])) == (
        "some parameters of group 0 of AdamW come with a name and some without; give all or none"
    )
    for given in ({p}, [{"params": {p}}]):
        assert message(ModuleError, lambda given=given: make(given)) == (
            "the parameters of group 0 of AdamW are a set, whose order changes from run to run; give a list"
        )
    assert message(ModuleError, lambda: make([p * 2.0])) == (
        "parameter 0 of group 0 of AdamW, of shape (2,), was computed by an operation; only leaves can be "
        "changed"
    )
    twice = "parameter {} of group {} of AdamW, of shape (2,), is in the optimizer already; give each once"
    assert message(ModuleError, lambda: make([p, p])) == twice.format(1, 0)
    assert message(ModuleError, lambda: make([{"params": [p]}, {"params": [p]}])) == twice.format(0, 1)
    assert message(ModuleError, lambda: make([{"params": [p], "weight_dacay": 1}])) == (
        "AdamW has no option weight_dacay; do you mean weight_decay?"
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
