"""What schedules refuse, and what they say then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.errors import ArgumentError, ModuleError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def optimizer(*rates: float) -> optim.SGD:
    groups = [{"params": [nn.Parameter(sw.ones(1))], "lr": lr} for lr in rates]
    return optim.SGD(groups, momentum=0.5)


OTHER = optim.StepLR(optimizer(1.0), 1)
PLATEAU = optim.ReduceLROnPlateau(optimizer(1.0))
REFUSED: list[tuple[type[Exception], Callable[[optim.Optimizer], object], str]] = [
    (ArgumentError, lambda o: optim.StepLR(o, 0), "StepLR needs step_size >= 1, got 0"),
    (
        ArgumentError,
        lambda o: optim.ConstantLR(o, 1.5),
        "ConstantLR needs factor between 0 and 1, got 1.5",
    ),
    (
        ArgumentError,
        lambda o: optim.LinearLR(o, 0.0),
        "LinearLR needs start_factor above 0 and at most 1, got 0.0",
    ),
    (
        ArgumentError,
        lambda o: optim.LinearLR(o, end_factor=2.0),
        "LinearLR needs end_factor between 0 and 1, got 2.0",
    ),
    (ArgumentError, lambda o: optim.PolynomialLR(o, 0), "PolynomialLR needs total_iters >= 1, got 0"),
    (ArgumentError, lambda o: optim.CosineAnnealingLR(o, 0), "CosineAnnealingLR needs T_max >= 1, got 0"),
    (
        ArgumentError,
        lambda o: optim.CosineAnnealingWarmRestarts(o, 2.5),
        "CosineAnnealingWarmRestarts needs an integer T_0 >= 1, got 2.5",
    ),
    (
        ArgumentError,
        lambda o: optim.CosineAnnealingWarmRestarts(o, 2).step(-1.0),
        "CosineAnnealingWarmRestarts: the step must be at least 0, got -1.0",
    ),
    (
        ArgumentError,
        lambda o: optim.CosineWarmupLR(o, 5, 6),
        "CosineWarmupLR needs 0 <= warmup_steps <= total_steps and at least one step; got "
        "warmup_steps=6, total_steps=5",
    ),
    (
        ArgumentError,
        lambda o: optim.CosineWarmupLR(o, 5, 1, 1.5),
        "CosineWarmupLR needs min_factor between 0 and 1, got 1.5",
    ),
    (
        ModuleError,
        lambda o: optim.LambdaLR(o, [lambda s: 1.0] * 2),
        "LambdaLR: got 2 functions for 1 parameter groups",
    ),
    (
        ModuleError,
        lambda o: optim.MultiplicativeLR(o, [0.9]),
        "MultiplicativeLR: lr_lambda should be a function, got a float",
    ),
    (ModuleError, lambda o: optim.StepLR(3, 1), "StepLR takes an Optimizer, not a int"),
    (
        ArgumentError,
        lambda o: optim.OneCycleLR(o, 1.0),
        "OneCycleLR needs total_steps, or epochs and steps_per_epoch",
    ),
    (
        ArgumentError,
        lambda o: optim.OneCycleLR(o, 1.0, epochs=2, steps_per_epoch=0),
        "OneCycleLR needs an integer steps_per_epoch >= 1, got 0",
    ),
    (
        ArgumentError,
        lambda o: optim.OneCycleLR(o, 1.0, 10, pct_start=1.5),
        "OneCycleLR needs pct_start between 0 and 1, got 1.5",
    ),
    (
        ArgumentError,
        lambda o: optim.OneCycleLR(o, 1.0, 10, anneal_strategy="sin"),
        'OneCycleLR: anneal_strategy is "cos" or "linear", not \'sin\'',
    ),
    (
        ModuleError,
        lambda o: optim.OneCycleLR(o, [1.0, 2.0], 10),
        "OneCycleLR: got 2 values of max_lr for 1 parameter groups",
    ),
    (
        ArgumentError,
        lambda o: optim.OneCycleLR(optim.Adagrad([sw.ones(1)]), 1.0, 10),
        "OneCycleLR: cycle_momentum needs an optimizer with momentum or betas, and Adagrad has neither; "
        "pass cycle_momentum=False",
    ),
    (
        ArgumentError,
        lambda o: optim.CyclicLR(o, 0.1, 1.0, mode="square"),
        'CyclicLR: mode is "triangular", "triangular2" or "exp_range", not \'square\'; or use scale_fn',
    ),
    (
        ArgumentError,
        lambda o: optim.CyclicLR(o, 0.1, 1.0, 5, 0),
        "CyclicLR needs step sizes above 0, got step_size_up=5, step_size_down=0",
    ),
    (
        ArgumentError,
        lambda o: optim.ReduceLROnPlateau(o, factor=1.0),
        "ReduceLROnPlateau needs factor < 1, got 1.0",
    ),
    (
        ArgumentError,
        lambda o: optim.ReduceLROnPlateau(o, "most"),
        'ReduceLROnPlateau: mode is "min" or "max", not \'most\'',
    ),
    (
        ArgumentError,
        lambda o: optim.ReduceLROnPlateau(o, threshold_mode="x"),
        'ReduceLROnPlateau: threshold_mode is "rel" or "abs", not \'x\'',
    ),
    (
        ModuleError,
        lambda o: optim.ReduceLROnPlateau(o, min_lr=[0.0, 0.0]),
        "ReduceLROnPlateau: got 2 values of min_lr for 1 parameter groups",
    ),
    (
        ArgumentError,
        lambda o: optim.ChainedScheduler([]),
        "ChainedScheduler needs at least one scheduler",
    ),
    (
        ModuleError,
        lambda o: optim.ChainedScheduler([3]),
        "ChainedScheduler: scheduler 0 is a int, no LRScheduler",
    ),
    (
        ArgumentError,
        lambda o: optim.ChainedScheduler([PLATEAU]),
        "ChainedScheduler: scheduler 0 is a ReduceLROnPlateau, whose steps take a number; step it alone",
    ),
    (
        ModuleError,
        lambda o: optim.SequentialLR(o, [OTHER], []),
        "SequentialLR: scheduler 0, a StepLR, is of another optimizer",
    ),
    (
        ArgumentError,
        lambda o: optim.SequentialLR(o, [optim.StepLR(o, 1), optim.StepLR(o, 1)], [1, 2]),
        "SequentialLR: 2 schedulers need 1 milestones, got 2",
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case: int) -> None:
    kind, call, expected = REFUSED[case]
    assert message(kind, lambda: call(optimizer(1.0))) == expected


def test_states_that_do_not_fit() -> None:
    schedule = optim.LambdaLR(optimizer(1.0), lambda step: 1.0)
    two = optim.LambdaLR(optimizer(1.0, 2.0), lambda step: 1.0).state_dict()
    assert message(ModuleError, lambda: schedule.load_state_dict(two)) == (
        "LambdaLR: the state is of a schedule for 2 parameter groups, but this one has 1"
    )
    other = optim.StepLR(optimizer(1.0), 2)
    assert message(ModuleError, lambda: other.load_state_dict(schedule.state_dict())) == (
        "StepLR: the state is of another schedule: it lacks gamma, step_size"
    )
    opt = optimizer(1.0)
    chained = optim.ChainedScheduler([optim.StepLR(opt, 2), optim.StepLR(opt, 3)])
    assert message(ModuleError, lambda: chained.load_state_dict({"_schedulers": []})) == (
        "ChainedScheduler: the state is of 0 schedulers, but this one has 2"
    )


def test_a_group_that_came_later() -> None:
    opt = optimizer(1.0)
    schedule = optim.LambdaLR(opt, lambda step: 1.0)
    plateau = optim.ReduceLROnPlateau(opt, patience=0, min_lr=[0.1])
    opt.add_param_group({"params": [nn.Parameter(sw.ones(1))]})
    assert message(ModuleError, schedule.step) == (
        "LambdaLR was made for 1 parameter groups, but the optimizer has 2; make the scheduler after the "
        "last add_param_group()"
    )
    plateau.step(1.0)
    assert message(ModuleError, lambda: plateau.step(1.0)) == (
        "ReduceLROnPlateau was given 1 values of min_lr, but the optimizer has 2 parameter groups now; set "
        "scheduler.min_lr to as many"
    )
