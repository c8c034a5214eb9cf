"""Schedules against their closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.errors import ArgumentError, ModuleError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def optimizer(*rates: float) -> optim.AdamW:
    return optim.AdamW([{"params": [nn.Parameter(sw.ones(1))], "lr": lr} for lr in rates])


def rates_of(schedule: optim.LRScheduler, steps: int) -> list[list[float]]:
    seen = []
    for _ in range(steps):
        assert schedule.get_last_lr() == [g["lr"] for g in schedule.optimizer.param_groups]
        seen.append(schedule.get_last_lr())
        schedule.step()
    return seen


@pytest.mark.parametrize(("total", "warmup", "low"), [(10, 3, 0.0), (10, 0, 0.1), (7, 7, 0.25), (1, 0, 0.0)])
def test_cosine_with_warmup(total: int, warmup: int, low: float) -> None:
    schedule = optim.CosineWarmupLR(optimizer(2.0, 0.5), total, warmup, low)
    for step, (first, second) in enumerate(rates_of(schedule, total + 4)):
        if step < warmup:
            factor = (step + 1) / warmup
        elif step >= total and total > warmup:
            factor = low
        else:
            at = min(1.0, (step - warmup) / max(1, total - warmup))
            factor = low + (1 - low) * (1 + math.cos(math.pi * at)) / 2
        assert first == pytest.approx(2.0 * factor, rel=1e-14, abs=1e-15)
        assert second == pytest.approx(0.5 * factor, rel=1e-14, abs=1e-15)


def test_cosine_meets_its_landmarks() -> None:
    seen = [r[0] for r in rates_of(optim.CosineWarmupLR(optimizer(1.0), 20, 4, 0.1), 25)]
    assert seen[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert seen[12] == pytest.approx(0.55)  # half way down
    assert seen[20:] == pytest.approx([0.1] * 5)
    assert seen[4:21] == sorted(seen[4:21], reverse=True)


def test_lambdas() -> None:
    one = optim.LambdaLR(optimizer(2.0, 3.0), lambda step: 0.5**step)
    assert rates_of(one, 3) == [[2.0, 3.0], [1.0, 1.5], [0.5, 0.75]]
    each = optim.LambdaLR(optimizer(2.0, 3.0), [lambda step: 1.0 + step, lambda step: 1 - step // 2])
    assert rates_of(each, 3) == [[2.0, 3.0], [4.0, 3.0], [6.0, 0.0]]


def test_the_optimizer_uses_the_rate() -> None:
    p = nn.Parameter(sw.ones(1))
    opt = optim.AdamW([p], lr=1.0, weight_decay=0.0, betas=(0.0, 0.0), eps=0.0)
    schedule = optim.LambdaLR(opt, lambda step: 10.0**-step)
    for expected in (0.0, -0.1, -0.11):
        p.grad = sw.ones(1)
        opt.step()
        schedule.step()
        assert p.item() == pytest.approx(expected, abs=1e-6)


def test_a_saved_schedule_continues() -> None:
    whole = rates_of(optim.CosineWarmupLR(optimizer(1.0, 2.0), 12, 3), 12)
    first = optim.CosineWarmupLR(optimizer(1.0, 2.0), 12, 3)
    for _ in range(5):
        first.step()
    saved = first.state_dict()
    assert saved == {"last_step": 5, "base_lrs": [1.0, 2.0]}
    # made over an optimizer that was loaded already, so that its rates are those of step 5
    second = optim.CosineWarmupLR(optimizer(*first.get_last_lr()), 12, 3)
    second.load_state_dict(saved)
    assert rates_of(second, 7) == whole[5:]
    first.step()
    assert saved["last_step"] == 5  # what was saved stays


def test_refused() -> None:
    for total, warmup in ((0, 0), (5, 6), (5, -1)):
        assert message(
            ArgumentError, lambda t=total, w=warmup: optim.CosineWarmupLR(optimizer(1.0), t, w)
        ) == (
            "CosineWarmupLR needs 0 <= warmup_steps <= total_steps and at least one step; "
            f"got warmup_steps={warmup}, total_steps={total}"
        )
    assert message(ArgumentError, lambda: optim.CosineWarmupLR(optimizer(1.0), 5, 1, 1.5)) == (
        "CosineWarmupLR needs min_factor between 0 and 1, got 1.5"
    )
    assert message(ModuleError, lambda: optim.LambdaLR(optimizer(1.0), [lambda s: 1.0] * 2)) == (
        "LambdaLR: got 2 functions for 1 parameter groups"
    )
    opt = optimizer(1.0)
    schedule = optim.LambdaLR(opt, lambda step: 1.0)
    assert message(
        ModuleError, lambda: schedule.load_state_dict({"last_step": 1, "base_lrs": [1.0, 2.0]})
    ) == ("LambdaLR: the state is of a schedule for 2 parameter groups, but this one has 1")
    opt.add_param_group({"params": [nn.Parameter(sw.ones(1))]})
    assert message(ModuleError, schedule.step) == (
        "LambdaLR was made for 1 parameter groups, but the optimizer has 2; make the scheduler after the "
        "last "
        "add_param_group()"
    )
    assert message(NotImplementedError, lambda: optim.LRScheduler(optimizer(1.0))) == (
        "LRScheduler does not define factor()"
    )
