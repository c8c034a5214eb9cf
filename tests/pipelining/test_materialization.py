"""Stages of a model that was made without values, or is given values of a whole model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from doubles import installed
from gpt import GPT
from shardwise import nn
from shardwise.backend.errors import ScheduleError
from shardwise.pipelining import SplitPoint, build_stage, pipeline
from shardwise.tensor import Tensor
from split_models import normal, row

BEGINNING = SplitPoint.BEGINNING


def on_shapes() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 6, device="shape"), nn.Tanh(), nn.BatchNorm1d(6, device="shape"),
        nn.Linear(6, 5, device="shape"), nn.Linear(5, 2, device="shape"),
    )  # fmt: skip


def test_a_stage_makes_its_own_values_alone_and_the_same_for_any_number_of_stages() -> None:
    found = []
    for stages in (1, 2, 3):
        values: dict[str, Any] = {}
        for index in range(stages):  # each in a model of its own, as on ranks
            sw.manual_seed(9)
            model = on_shapes()
            pipe = pipeline(model, (sw.ones(3, 4),), num_stages=stages, balance="params")
            stage = pipe.build_stage(index)
            held = stage.submodule.state_dict()
            values |= {name: each.numpy().copy() for name, each in held.items()}
            absent = {name for name, each in model.state_dict().items() if str(each.device) == "shape"}
            assert absent == set(model.state_dict()) - set(held)
        found.append(values)
    assert set(found[0]) == set(on_shapes().state_dict())
    for other in found[1:]:
        for name, each in found[0].items():
            np.testing.assert_array_equal(other[name], each)
    assert np.abs(found[0]["0.weight"]).max() <= 0.5
    assert len(np.unique(found[0]["0.weight"])) == 24


def test_first_values_by_hand() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(sw.empty(4, device="shape"))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.factor

    model = nn.Sequential(nn.Linear(4, 4, device="shape"), Scale())
    pipe = pipeline(model, (sw.ones(3, 4),), split_spec={"1": BEGINNING})
    with pytest.raises(
        ScheduleError,
        match=r"no values for 1.factor, and Scale has no reset_parameters\(\); give build_stage\(init=",
    ):
        pipe.build_stage(1)
    model = nn.Sequential(nn.Linear(4, 4, device="shape"), Scale())
    pipe = pipeline(model, (sw.ones(3, 4),), split_spec={"1": BEGINNING})
    names: list[str] = []
    stage = pipe.build_stage(1, init=lambda name, tensor: (names.append(name), tensor.fill_(2.0)))
    assert names == ["1.factor"]
    assert stage.submodule.get_parameter("1.factor").tolist() == [2.0] * 4


def test_a_stage_takes_what_is_its_own_from_a_whole_state() -> None:
    whole = {name: each.numpy() * 0 + 3.0 for name, each in row(4).state_dict().items()}
    pipe = pipeline(row(4), (normal(3, 4),), num_stages=2)
    stage = pipe.get_stage_module(1)
    built = build_stage(stage, 1, pipe.info())
    assert (built.submodule, built.num_stages, built.is_last) == (stage, 2, True)
    assert stage.load_state_dict(whole).missing_keys == []
    assert {float(p.mean()) for p in stage.parameters()} == {3.0}
    assert 3.0 not in {float(p.mean()) for p in pipe.get_stage_module(0).parameters()}


def test_on_the_double_of_a_gpu() -> None:
    """A model that moves its input to where it is; and one that gets its values there."""
    with installed():
        index = sw.tensor(np.arange(24).reshape(3, 8))
        pipe = pipeline(GPT(3, 8, 2, 8, 0.1).to("cuda"), (index,), num_stages=3)
        assert pipe.check(index, rtol=1e-5).gradients
        assert {str(p.device) for p in pipe.get_stage_module(1).parameters()} == {"cuda:0"}
        stage = pipeline(on_shapes(), (sw.zeros(2, 4),), num_stages=2).build_stage(1, device="cuda")
        assert {str(p.device) for p in stage.submodule.parameters()} == {"cuda:0"}
