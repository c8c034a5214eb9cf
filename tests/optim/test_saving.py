"""Optimizers saved and loaded: the same path to the last bit, and what does not fit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.errors import ModuleError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def parameter(*shape: int, seed: int = 0, dtype: Any = np.float64) -> nn.Parameter:
    return nn.Parameter(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def give(p: nn.Parameter, step: int) -> None:
    """Set a gradient that is a function of the value and the step."""
    p.grad = sw.tensor((np.sin(3 * p.data + step) * 10.0 ** (step % 3 - 1)).astype(p.dtype))


EVERY: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"momentum": 0.9, "dampening": 0.5}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("Adagrad", {"initial_accumulator_value": 0.1, "lr_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adadelta", {}),
    ("Adamax", {}),
    ("NAdam", {}),
    ("RAdam", {"betas": (0.9, 0.9)}),
    ("LAMB", {}),
    ("Lion", {}),
    ("Adafactor", {}),
]


@pytest.mark.parametrize(("name", "options"), EVERY, ids=str)
@pytest.mark.parametrize("how", ["state_dict", "pickle", "deepcopy"])
def test_every_optimizer_goes_on_as_if_nothing_had_been(name: str, options: dict[str, Any], how: str) -> None:
    def run(ps: list[nn.Parameter], opt: optim.Optimizer, first: int, last: int) -> None:
        for step in range(first, last):
            for p in ps if step > 1 else ps[:1]:
                give(p, step)
            opt.step()

    ps = [parameter(4, 3), parameter(5, seed=1), parameter(seed=2)]
    opt = getattr(optim, name)([{"params": ps[:2], "lr": 0.1}, {"params": ps[2:]}], **options)
    run(ps, opt, 0, 5)
    if how == "state_dict":
        others = [nn.Parameter(p.data.copy()) for p in ps]
        again = getattr(optim, name)([{"params": others[:2]}, {"params": others[2:]}])
        again.load_state_dict(pickle.loads(pickle.dumps(opt.state_dict())))
    elif how == "pickle":
        others, again = pickle.loads(pickle.dumps((ps, opt)))
    else:
        others, again = copy.deepcopy((ps, opt))
    run(ps, opt, 5, 10)
    run(others, again, 5, 10)
    for p, q in zip(ps, others, strict=True):
        np.testing.assert_array_equal(p.data, q.data)
        assert not np.shares_memory(p.data, q.data)
    assert repr(again) == repr(opt)


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
        "AdamW: the state of parameter 0: exp_avg has shape (2,), and a parameter of shape (3,) needs (3,)"
    )
    foreign = optim.SGD([parameter(3), parameter(2)], lr=5.0).state_dict()
    assert message(ModuleError, lambda: opt.load_state_dict(foreign)) == (
        "AdamW: the state is of another optimizer: it lacks the options betas, eps, amsgrad, "
        "decoupled_weight_decay"
    )
    assert message(ModuleError, lambda: opt.load_state_dict(before["state"])) == (
        'AdamW: wanted a state_dict() of an optimizer, with "state" and "param_groups"; got '
        "a dict of ['0', '1']"
    )
    assert opt.param_groups[0]["lr"] == 1e-3  # nothing was changed
    for n, state in opt.state_dict()["state"].items():
        for key, value in state.items():
            np.testing.assert_array_equal(value, before["state"][n][key])


def test_adafactor_knows_the_shapes_of_its_state() -> None:
    p, q = parameter(3, 4), parameter(4, 3)
    give(q, 0)
    opt, other = optim.Adafactor([p]), optim.Adafactor([q])
    other.step()
    assert message(ModuleError, lambda: opt.load_state_dict(other.state_dict())) == (
        "Adafactor: the state of parameter 0: row_var has shape (4, 1), and a parameter of shape (3, 4) "
        "needs (3, 1)"
    )


def test_moments_take_the_dtype_of_the_parameter() -> None:
    p, q = parameter(3), parameter(3, dtype=np.float32)
    give(p, 0)
    opt, other = optim.AdamW([p]), optim.AdamW([q])
    opt.step()
    other.load_state_dict(opt.state_dict())
    assert other.state[q]["exp_avg"].dtype == np.float32
    assert other.state[q]["step"] == 1


def test_what_the_user_or_a_scheduler_has_put_into_a_group_is_saved() -> None:
    p = parameter(2)
    opt = optim.SGD([{"params": [("p", p)], "name": "head"}], lr=0.5)
    opt.param_groups[0].update(initial_lr=2.0, lr=0.25)
    other = optim.SGD([{"params": [("q", parameter(2))]}])
    other.load_state_dict(opt.state_dict())
    group = other.param_groups[0]
    assert (group["name"], group["initial_lr"], group["lr"]) == ("head", 2.0, 0.25)
    assert group["param_names"] == ["q"]


def test_the_group_stays_the_same_dict() -> None:
    p = parameter(2)
    opt = optim.SGD([p], lr=0.5)
    group = opt.param_groups[0]
    opt.load_state_dict(optim.SGD([parameter(2)], lr=0.1).state_dict())
    assert opt.param_groups[0] is group
    assert group["lr"] == 0.1
    assert group["params"] == [p]


def test_state_of_any_kind_is_copied() -> None:
    class Odd(optim.Optimizer):
        def update(self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
            state.update(tensor=sw.ones(2), wide=np.ones((5, 5)), steps=[1, 2], name="x")

    p, q = parameter(2), parameter(2)
    give(p, 0)
    opt, other = Odd([p], {}), Odd([q], {})
    opt.step()
    other.load_state_dict(opt.state_dict())
    mine, theirs = opt.state[p], other.state[q]
    assert isinstance(theirs["tensor"], sw.Tensor)
    assert theirs["tensor"].tolist() == [1.0, 1.0]
    assert (theirs["wide"].shape, theirs["wide"].dtype) == ((5, 5), np.float64)
    assert (theirs["steps"], theirs["name"]) == ([1, 2], "x")
    assert theirs["steps"] is not mine["steps"]
    assert not np.shares_memory(theirs["wide"], mine["wide"])


def test_hooks_stay_behind_in_copies() -> None:
    p = parameter(2)
    opt = optim.SGD([p])
    opt.register_step_pre_hook(lambda *_: pytest.fail("called"))
    give(p, 0)
    copied = pickle.loads(pickle.dumps(opt))
    copied.param_groups[0]["params"][0].grad = sw.tensor(np.ones(2))
    copied.step()
    assert copied.param_groups[0]["params"][0] is not p
