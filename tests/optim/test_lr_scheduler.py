"""Schedules against their closed forms."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.errors import ArgumentError, ModuleError
from shardwise.optim import lr_scheduler as schedules

Make = Callable[[optim.Optimizer], optim.LRScheduler]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def optimizer(*rates: float, momentum: float = 0.5) -> optim.SGD:
    groups = [{"params": [nn.Parameter(sw.ones(1))], "lr": lr} for lr in rates]
    return optim.SGD(groups, momentum=momentum)


def rates_of(schedule: optim.LRScheduler, steps: int) -> list[list[float]]:
    seen = []
    for _ in range(steps):
        assert schedule.get_last_lr() == [g["lr"] for g in schedule.optimizer.param_groups]
        seen.append(schedule.get_last_lr())
        schedule.step()
    return seen


def cosine(share: float) -> float:
    return (1 + math.cos(math.pi * share)) / 2


FACTORS: list[tuple[Make, Callable[[int], float]]] = [
    (lambda o: optim.LambdaLR(o, lambda t: 0.5**t), lambda t: 0.5**t),
    (lambda o: optim.MultiplicativeLR(o, lambda t: 1 / t), lambda t: 1 / math.factorial(t)),
    (lambda o: optim.StepLR(o, 3, 0.5), lambda t: 0.5 ** (t // 3)),
    (lambda o: optim.StepLR(o, 1), lambda t: 0.1**t),
    (lambda o: optim.MultiStepLR(o, [9, 2, 5, 5], 0.5), lambda t: 0.5 ** sum(t >= m for m in (2, 5, 5, 9))),
    (lambda o: optim.ExponentialLR(o, 0.9), lambda t: 0.9**t),
    (lambda o: optim.ConstantLR(o), lambda t: 1 / 3 if t < 5 else 1.0),
    (lambda o: optim.ConstantLR(o, 0.25, 3), lambda t: 0.25 if t < 3 else 1.0),
    (lambda o: optim.ConstantLR(o, 0.0, 2), lambda t: 0.0 if t < 2 else 1.0),
    (lambda o: optim.LinearLR(o), lambda t: 1 / 3 + 2 / 3 * min(t, 5) / 5),
    (lambda o: optim.LinearLR(o, 0.8, 0.2, 7), lambda t: 0.8 - 0.6 * min(t, 7) / 7),
    (lambda o: optim.PolynomialLR(o), lambda t: 1 - min(t, 5) / 5),
    (lambda o: optim.PolynomialLR(o, 8, 2.5), lambda t: (1 - min(t, 8) / 8) ** 2.5),
    (lambda o: optim.CosineAnnealingLR(o, 7), lambda t: cosine(t / 7)),
    (lambda o: optim.CosineAnnealingLR(o, 1), lambda t: cosine(t)),
    (lambda o: optim.CosineAnnealingWarmRestarts(o, 4), lambda t: cosine(t % 4 / 4)),
    (
        lambda o: optim.CosineAnnealingWarmRestarts(o, 3, 2),
        lambda t: cosine(t / 3) if t < 3 else cosine((t - 3) / 6) if t < 9 else cosine((t - 9) / 12),
    ),
]


@pytest.mark.parametrize("case", range(len(FACTORS)))
def test_factors_of_the_first_rate(case: int) -> None:
    make, factor = FACTORS[case]
    for step, (first, second) in enumerate(rates_of(make(optimizer(2.0, 0.5)), 19)):
        assert first == pytest.approx(2.0 * factor(step), rel=1e-12, abs=1e-14)
        assert second == pytest.approx(0.5 * factor(step), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("case", [i for i in range(len(FACTORS)) if i not in (1,)])
def test_any_step_can_be_gone_to(case: int) -> None:
    make, factor = FACTORS[case]
    schedule = make(optimizer(2.0))
    for step in (7, 0, 3, 11, 2):
        schedule.step(step)
        assert schedule.last_epoch == step
        assert schedule.get_last_lr() == pytest.approx([2.0 * factor(step)], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("low", [0.0, 0.1])
def test_cosines_end_at_a_lowest_rate(low: float) -> None:
    for make, share in (
        (lambda o: optim.CosineAnnealingLR(o, 5, low), lambda t: t / 5),
        (lambda o: optim.CosineAnnealingWarmRestarts(o, 5, eta_min=low), lambda t: t % 5 / 5),
    ):
        for step, rates in enumerate(rates_of(make(optimizer(2.0, 0.5)), 17)):
            expected = [low + (base - low) * cosine(share(step)) for base in (2.0, 0.5)]
            assert rates == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_restarts_may_go_by_fractions_of_a_step() -> None:
    schedule = optim.CosineAnnealingWarmRestarts(optimizer(1.0), 2, 3)
    for epoch, share in ((0.5, 0.25), (1.75, 0.875), (2.0, 0.0), (5.0, 0.5), (8.0, 0.0), (17.0, 0.5)):
        schedule.step(epoch)
        assert schedule.get_last_lr() == pytest.approx([cosine(share)], abs=1e-15)
        assert schedule.last_epoch == int(epoch)
    schedule.step()
    assert schedule.get_last_lr() == pytest.approx([cosine(10 / 18)])


def test_restarts_are_exact_at_every_restart() -> None:
    schedule = optim.CosineAnnealingWarmRestarts(optimizer(1.0), 5, 3)
    for n in range(12):  # a logarithm would miss some
        schedule.step(5 * (3**n - 1) // 2)
        assert schedule.get_last_lr() == [1.0]


@pytest.mark.parametrize(("total", "warmup", "low"), [(10, 3, 0.0), (10, 0, 0.1), (7, 7, 0.25), (1, 0, 0.0)])
def test_cosine_with_warmup(total: int, warmup: int, low: float) -> None:
    schedule = optim.CosineWarmupLR(optimizer(2.0, 0.5), total, warmup, low)
    for step, (first, second) in enumerate(rates_of(schedule, total + 4)):
        if step < warmup:
            factor = (step + 1) / warmup
        elif step >= total and total > warmup:
            factor = low
        else:
            factor = low + (1 - low) * cosine(min(1.0, (step - warmup) / max(1, total - warmup)))
        assert first == pytest.approx(2.0 * factor, rel=1e-14, abs=1e-15)
        assert second == pytest.approx(0.5 * factor, rel=1e-14, abs=1e-15)


def test_cosine_meets_its_landmarks() -> None:
    seen = [r[0] for r in rates_of(optim.CosineWarmupLR(optimizer(1.0), 20, 4, 0.1), 25)]
    assert seen[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert seen[12] == pytest.approx(0.55)  # half way down
    assert seen[20:] == pytest.approx([0.1] * 5)
    assert seen[4:21] == sorted(seen[4:21], reverse=True)


def test_one_function_per_group() -> None:
    each = optim.LambdaLR(optimizer(2.0, 3.0), [lambda step: 1.0 + step, lambda step: 1 - step // 2])
    assert rates_of(each, 3) == [[2.0, 3.0], [4.0, 3.0], [6.0, 0.0]]


# ---- cycles


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("three", [False, True])
def test_one_cycle(strategy: Any, three: bool) -> None:
    opt = optimizer(9.0, 9.0)
    schedule = optim.OneCycleLR(
        opt, [1.0, 2.0], 40, pct_start=0.25, anneal_strategy=strategy, div_factor=10.0, three_phase=three
    )
    points = [(0.0, 0.1, 0.95), (9.0, 1.0, 0.85), (39.0, 1e-5, 0.95)]
    if three:
        points.insert(2, (18.0, 0.1, 0.95))
    for step in range(40):
        (a, lr_a, m_a), (b, lr_b, m_b) = next(
            pair for pair in itertools.pairwise(points) if step <= pair[1][0]
        )
        share = (step - a) / (b - a)
        share = (1 - math.cos(math.pi * share)) / 2 if strategy == "cos" else share
        expected = lr_a + (lr_b - lr_a) * share
        assert schedule.get_last_lr() == pytest.approx([expected, 2 * expected], rel=1e-10, abs=1e-14)
        assert [g["momentum"] for g in opt.param_groups] == pytest.approx([m_a + (m_b - m_a) * share] * 2)
        if step < 39:
            schedule.step()
    schedule.step()
    assert message(ArgumentError, schedule.step) == (
        "OneCycleLR was made for 40 steps, and step 41 was asked for; make it with the total_steps of the "
        "whole training"
    )


def test_one_cycle_moves_the_first_beta() -> None:
    opt = optim.AdamW([nn.Parameter(sw.ones(1))])
    schedule = optim.OneCycleLR(opt, 1.0, epochs=5, steps_per_epoch=2, pct_start=0.5)
    assert opt.param_groups[0]["betas"] == (0.95, 0.999)
    for _ in range(4):
        schedule.step()
    assert opt.param_groups[0]["betas"] == pytest.approx((0.85, 0.999))
    fixed = optim.AdamW([nn.Parameter(sw.ones(1))])
    optim.OneCycleLR(fixed, 1.0, 10, cycle_momentum=False).step()
    assert fixed.param_groups[0]["betas"] == (0.9, 0.999)


@pytest.mark.parametrize("pct", [0.0, 0.1, 1.0])
def test_one_cycle_at_its_edges(pct: float) -> None:
    seen = [r[0] for r in rates_of(optim.OneCycleLR(optimizer(1.0), 1.0, 10, pct_start=pct), 10)]
    assert all(0.0 < rate <= 1.0 for rate in seen)
    assert seen[-1] == pytest.approx(1.0 if pct == 1.0 else 4e-6)


@pytest.mark.parametrize("mode", ["triangular", "triangular2", "exp_range"])
@pytest.mark.parametrize("down", [None, 2])
def test_cyclic(mode: Any, down: int | None) -> None:
    opt = optimizer(7.0, 7.0)
    schedule = optim.CyclicLR(opt, [0.1, 0.2], [1.1, 0.6], 4, down, mode, gamma=0.9)
    total = 8 if down is None else 6
    for step in range(25):
        at = step % total
        height = at / 4 if at <= 4 else (total - at) / (total - 4)
        height *= {"triangular": 1.0, "triangular2": 0.5 ** (step // total), "exp_range": 0.9**step}[mode]
        assert schedule.get_last_lr() == pytest.approx([0.1 + height, 0.2 + 0.4 * height], rel=1e-12)
        momenta = [g["momentum"] for g in opt.param_groups]
        assert momenta == pytest.approx([0.9 - 0.1 * height] * 2)
        schedule.step()


def test_cyclic_with_a_function_of_one_s_own() -> None:
    by_cycle = optim.CyclicLR(optimizer(1.0), 0.0, 1.0, 1, scale_fn=lambda n: 1 / n)
    assert [r[0] for r in rates_of(by_cycle, 6)] == pytest.approx([0.0, 1.0, 0.0, 0.5, 0.0, 1 / 3])
    by_step = optim.CyclicLR(optimizer(1.0), 0.0, 1.0, 1, scale_fn=lambda n: 2.0**-n, scale_mode="iterations")
    assert [r[0] for r in rates_of(by_step, 6)] == pytest.approx([0.0, 0.5, 0.0, 0.125, 0.0, 0.03125])


# ---- plateaus


def test_cyclic_asks_its_own_modes_by_cycle() -> None:
    # What scale_fn would be given does not matter where there is none.
    plain = optim.CyclicLR(optimizer(1.0), 0.0, 1.0, 3, mode="triangular2")
    told = optim.CyclicLR(optimizer(1.0), 0.0, 1.0, 3, mode="triangular2", scale_mode="iterations")
    assert rates_of(told, 14) == rates_of(plain, 14)


def test_cyclic_leaves_the_first_rate_of_others_alone() -> None:
    opt = optimizer(1.0)
    first = optim.ExponentialLR(opt, 0.5)
    schedule = optim.SequentialLR(opt, [first, optim.CyclicLR(opt, 0.01, 0.5, 2)], [2])
    np.testing.assert_allclose(rates_of(schedule, 5), [[1.0], [0.5], [0.01], [0.255], [0.5]])


def test_a_plateau_reduces_the_rate() -> None:
    schedule = optim.ReduceLROnPlateau(optimizer(1.0, 0.2), factor=0.5, patience=2, min_lr=[0.3, 0.0])
    numbers = [10.0, 9.0, 9.0, 9.1, 9.0, 9.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    seen = []
    for number in numbers:
        schedule.step(sw.tensor(number))
        seen.append(schedule.get_last_lr()[0])
    assert seen == [1.0] * 4 + [0.5] * 5 + [0.3] * 4
    assert schedule.get_last_lr() == [0.3, 0.2 * 0.5**3]


@pytest.mark.parametrize(
    ("mode", "threshold_mode", "just_better", "not_better"),
    [
        ("min", "rel", 0.89, 0.91),
        ("min", "abs", 0.89, 0.91),
        ("max", "rel", 1.11, 1.09),
        ("max", "abs", 1.11, 1.09),
    ],
)
def test_what_counts_as_better(mode: Any, threshold_mode: Any, just_better: float, not_better: float) -> None:
    for number, bad in ((just_better, 0), (not_better, 1), (math.nan, 1)):
        schedule = optim.ReduceLROnPlateau(optimizer(1.0), mode, threshold=0.1, threshold_mode=threshold_mode)
        schedule.step(1.0)
        schedule.step(number)
        assert schedule.num_bad_epochs == bad
        assert schedule.best == (number if not bad else 1.0)


def test_a_plateau_cools_down() -> None:
    schedule = optim.ReduceLROnPlateau(optimizer(1.0), factor=0.5, patience=0, cooldown=2)
    seen, cooling = [], []
    for _ in range(8):
        schedule.step(1.0)
        seen.append(schedule.get_last_lr()[0])
        cooling.append(schedule.in_cooldown)
    assert seen == [1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    assert cooling == [False, True, True, False, True, True, False, True]


def test_reductions_that_are_too_small_are_not_made() -> None:
    opt = optimizer(1e-8)
    schedule = optim.ReduceLROnPlateau(opt, patience=0)
    for _ in range(3):
        schedule.step(1.0)
    assert opt.param_groups[0]["lr"] == 1e-8


# ---- schedules of schedules


def test_one_after_the_other() -> None:
    opt = optimizer(1.0)
    schedule = optim.SequentialLR(
        opt,
        [optim.LinearLR(opt, 0.25, 1.0, 3), optim.CosineAnnealingLR(opt, 4), optim.ConstantLR(opt, 0.5, 2)],
        [3, 8],
    )
    expected = [0.25, 0.5, 0.75, *[cosine(t / 4) for t in range(5)], 0.5, 0.5, 1.0, 1.0]
    assert [r[0] for r in rates_of(schedule, 12)] == pytest.approx(expected)


def test_all_together() -> None:
    opt = optimizer(2.0, 4.0)
    schedule = optim.ChainedScheduler([optim.ConstantLR(opt, 0.1, 3), optim.ExponentialLR(opt, 0.9)])
    for step, rates in enumerate(rates_of(schedule, 6)):
        factor = (0.1 if step < 3 else 1.0) * 0.9**step
        assert rates == pytest.approx([2.0 * factor, 4.0 * factor])


def test_composites_of_composites() -> None:
    opt = optimizer(1.0)
    inner = optim.ChainedScheduler([optim.ConstantLR(opt, 0.5, 2), optim.ExponentialLR(opt, 0.5)])
    first = optim.SequentialLR(opt, [inner, optim.StepLR(opt, 2, 0.1)], [3])
    expected = [0.5, 0.25, 0.25, 1.0, 1.0, 0.1, 0.1]
    assert [r[0] for r in rates_of(first, 7)] == pytest.approx(expected)


def test_composites_begin_anew_when_their_turn_comes() -> None:
    opt = optimizer(1.0)
    chained = optim.ChainedScheduler([optim.ConstantLR(opt, 0.5, 2), optim.ExponentialLR(opt, 0.5)])
    nested = optim.SequentialLR(
        opt, [optim.ConstantLR(opt, 0.2, 9), optim.CosineAnnealingWarmRestarts(opt, 2)], [2]
    )
    schedule = optim.SequentialLR(opt, [optim.StepLR(opt, 1), chained, nested], [2, 5])
    expected = [1.0, 0.1, 0.5, 0.25, 0.25, 0.2, 0.2, 1.0, 0.5, 1.0]
    assert [r[0] for r in rates_of(schedule, 10)] == pytest.approx(expected)


def test_a_rate_changed_by_hand_stays_changed() -> None:
    opt = optimizer(1.0)
    schedule = optim.ExponentialLR(opt, 0.5)
    schedule.step()
    opt.param_groups[0]["lr"] = 8.0
    schedule.step()
    assert schedule.get_last_lr() == [4.0]


def test_the_optimizer_uses_the_rate() -> None:
    p = nn.Parameter(sw.ones(1))
    opt = optim.AdamW([p], lr=1.0, weight_decay=0.0, betas=(0.0, 0.0), eps=0.0)
    schedule = optim.LambdaLR(opt, lambda step: 10.0**-step)
    for expected in (0.0, -0.1, -0.11):
        p.grad = sw.ones(1)
        opt.step()
        schedule.step()
        assert p.item() == pytest.approx(expected, abs=1e-6)


# ---- saving


class Power:
    """A function with something to save."""

    def __init__(self, base: float) -> None:
        self.base = base

    def __call__(self, step: float) -> float:
        return self.base**step


SAVED: list[Make] = [
    lambda o: optim.LambdaLR(o, Power(0.9)),
    lambda o: optim.MultiplicativeLR(o, [lambda t: 0.9, Power(0.99)]),
    lambda o: optim.MultiStepLR(o, [2, 7, 7]),
    lambda o: optim.LinearLR(o, 0.1, 1.0, 8),
    lambda o: optim.CosineAnnealingLR(o, 6),
    lambda o: optim.CosineAnnealingWarmRestarts(o, 3, 2),
    lambda o: optim.CosineWarmupLR(o, 12, 3),
    lambda o: optim.OneCycleLR(o, [1.0, 2.0], 20),
    lambda o: optim.CyclicLR(o, 0.1, 1.0, 3, mode="triangular2"),
    lambda o: optim.CyclicLR(o, 0.1, 1.0, 3, scale_fn=Power(0.5)),
    lambda o: optim.SequentialLR(o, [optim.ConstantLR(o, 0.5, 9), optim.ExponentialLR(o, 0.9)], [3]),
    lambda o: optim.ChainedScheduler([optim.StepLR(o, 2), optim.LambdaLR(o, Power(0.9))]),
]


@pytest.mark.parametrize("case", range(len(SAVED)))
@pytest.mark.parametrize("at", [0, 5])
def test_a_saved_schedule_continues(case: int, at: int) -> None:
    whole = rates_of(SAVED[case](optimizer(1.0, 2.0)), 15)
    opt = optimizer(1.0, 2.0)
    schedule = SAVED[case](opt)
    for _ in range(at):
        schedule.step()
    saved, of_optimizer = schedule.state_dict(), opt.state_dict()
    text = pickle.dumps((saved, of_optimizer))
    schedule.step()
    assert pickle.dumps((saved, of_optimizer)) == text  # what was saved stays
    other = optimizer(9.0, 9.0)
    again = SAVED[case](other)
    again.load_state_dict(saved)
    other.load_state_dict(of_optimizer)
    assert rates_of(again, 15 - at) == whole[at:]


def test_what_a_function_holds_is_saved() -> None:
    first, second = Power(0.5), Power(0.1)
    saved = optim.LambdaLR(optimizer(1.0), first).state_dict()
    assert saved["lr_lambdas"] == [{"base": 0.5}]
    optim.LambdaLR(optimizer(1.0), second).load_state_dict(saved)
    assert second.base == 0.5
    assert optim.LambdaLR(optimizer(1.0), lambda step: 1.0).state_dict()["lr_lambdas"] == [None]
    cyclic = optim.CyclicLR(optimizer(1.0), 0.1, 1.0, scale_fn=first)
    assert cyclic.state_dict()["_scale_fn"] == {"base": 0.5}


def test_a_saved_plateau_continues() -> None:
    numbers = [3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0]
    whole = optim.ReduceLROnPlateau(optimizer(1.0), patience=1)
    for number in numbers:
        whole.step(number)
    opt = optimizer(1.0)
    first = optim.ReduceLROnPlateau(opt, patience=1)
    for number in numbers[:4]:
        first.step(number)
    other = optimizer(1.0)
    second = optim.ReduceLROnPlateau(other, patience=9)
    second.load_state_dict(first.state_dict())
    other.load_state_dict(opt.state_dict())
    for number in numbers[4:]:
        second.step(number)
    assert second.get_last_lr() == whole.get_last_lr()
    assert second.state_dict() == whole.state_dict()


def test_going_on_with_a_loaded_optimizer() -> None:
    opt = optimizer(1.0)
    schedule = optim.CosineAnnealingLR(opt, 10)
    for _ in range(4):
        schedule.step()
    other = optimizer(5.0)
    other.load_state_dict(opt.state_dict())
    again = optim.CosineAnnealingLR(other, 10, last_epoch=3)
    assert rates_of(again, 5) == rates_of(schedule, 5)
    assert message(ModuleError, lambda: optim.StepLR(optimizer(1.0), 3, last_epoch=2)) == (
        "StepLR: last_epoch=2 goes on with a saved run, but group 0 has no initial_lr; load the optimizer's "
        "state first, or leave last_epoch away"
    )


def test_a_schedule_of_one_s_own() -> None:
    class Halving(optim.LRScheduler):
        def get_lr(self) -> list[float]:
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    assert rates_of(Halving(optimizer(4.0)), 3) == [[4.0], [2.0], [1.0]]
    assert message(NotImplementedError, lambda: optim.LRScheduler(optimizer(1.0))) == (
        "LRScheduler does not define get_lr()"
    )


def test_the_module_has_all_schedules() -> None:
    assert set(schedules.__all__) < set(optim.__all__)
    assert all(getattr(schedules, name) is getattr(optim, name) for name in schedules.__all__)
    assert all(issubclass(getattr(schedules, name), optim.LRScheduler) for name in schedules.__all__)
