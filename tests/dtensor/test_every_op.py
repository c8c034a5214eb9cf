"""Every op on sharded tensors gives what it gives on whole ones, forward and backward, however they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import shardwise as sw
from gradient_cases import CASES, GROUPS
from op_trials import Trial, failures, made, on_one_axis, on_two_axes, run_dry, run_trial

# On three ranks, where pieces are uneven, every placement of up to two tensors; a sample on the others.
SAMPLES = {2: 1, 3: 0, 4: 1}
EVERY = 25
"""Of so many cases one runs under MPI, too."""


def report(found: list[str]) -> None:
    assert not found, "\n".join([f"{len(found)} trials failed", *found])


def check(group: str, world: int, tried: Callable[[str], Iterator[Trial]]) -> None:
    trials = made(world, lambda: (each for name in GROUPS[group] for each in tried(name)))
    report(failures(trials, world, run_and_run_dry if world == 2 else None))


def run_and_run_dry(trial: Trial) -> None:
    """Compare, and have one rank find out how the results lie while the others have gone on."""
    laid = run_trial(trial)
    if sw.rank() == 1:
        told = run_dry(trial)
        assert told is None or told == laid


@pytest.mark.parametrize("world", SAMPLES)
@pytest.mark.parametrize("group", GROUPS)
def test_on_one_axis(group: str, world: int) -> None:
    check(group, world, lambda name: on_one_axis(name, world, SAMPLES[world]))


@pytest.mark.parametrize("group", GROUPS)
def test_on_two_axes(group: str) -> None:
    check(group, 4, lambda name: on_two_axes(name, 1))


@pytest.mark.parametrize("group", GROUPS)
def test_gradients_of_gradients(group: str) -> None:
    check(group, 3, lambda name: on_one_axis(name, 3, 1, twice=True))


@pytest.mark.mpi(min_size=3)
def test_a_sample_under_mpi() -> None:
    for name in list(CASES)[::EVERY]:
        for trial in on_one_axis(name, sw.world_size(), 1):
            run_trial(trial)


def test_one_failure_hides_no_other() -> None:
    names = ["rnn tanh", "rnn relu backwards", "rnn lengths"]
    trials = made(3, lambda: (each for name in names for each in on_one_axis(name, 3, 1)))

    def run(trial: Trial) -> None:
        if trial.name == "rnn relu backwards" and sw.rank() == 1:
            raise ValueError("wrong on one rank, while the others wait for it")
        run_trial(trial)

    found = failures(trials, 3, run)
    assert [each.split(":")[0] for each in found] == ["rnn relu backwards"] * 2
    assert "ValueError: wrong on one rank" in found[0]
