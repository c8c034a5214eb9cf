"""What DistributedDataParallel refuses, with whole messages."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.collectives import get_group, run_threads
from shardwise.errors import ArgumentError, AutogradError, ModuleError
from shardwise.parallel import DistributedDataParallel


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def linear(*sizes: int, **options: Any) -> nn.Linear:
    return nn.Linear(*sizes, dtype=np.float64, **options)


def grads(ddp: DistributedDataParallel) -> list[float | None]:
    return [None if p.grad is None else p.grad.item() for p in ddp.parameters()]


X = np.array([1.0])


# ---- modules that differ


def differing(make: Callable[[int], nn.Module], world: int = 3, **options: Any) -> list[str]:
    return run_threads(
        lambda rank: message(ModuleError, lambda: DistributedDataParallel(make(rank), **options)), world
    )


def differs(mine: str, rank: int, theirs: str) -> str:
    return (
        f"the module differs between ranks: rank 0 has {mine} where rank {rank} has {theirs}. "
        "Build the same model on all ranks."
    )


def test_shapes_that_differ() -> None:
    expected = differs("weight (2, 3) float64", 2, "weight (4, 3) float64")
    assert differing(lambda rank: linear(3, 4 if rank == 2 else 2)) == [expected] * 3


def test_dtypes_that_differ() -> None:
    got = differing(lambda rank: nn.Linear(1, 1, dtype=np.float32 if rank else np.float64), 2)
    assert got == [differs("weight (1, 1) float64", 1, "weight (1, 1) float32")] * 2


def test_names_that_differ() -> None:
    got = differing(lambda rank: nn.Sequential({"ab"[rank]: linear(1, 1)}), 2)
    assert got == [differs("a.weight (1, 1) float64", 1, "b.weight (1, 1) float64")] * 2


def test_frozen_on_one_rank_only() -> None:
    got = differing(lambda rank: linear(1, 1).requires_grad_(rank == 0), 2)
    assert got == [differs("weight (1, 1) float64", 1, "weight (1, 1) float64 (frozen)")] * 2


def test_numbers_of_parameters_that_differ() -> None:
    got = differing(lambda rank: linear(1, 1, bias=rank == 1), 2)
    expected = (
        "the module differs between ranks: rank 0 has 1 parameters and buffers, rank 1 has 2; only rank 1 "
        "has "
        "bias (1,) float64. Build the same model on all ranks."
    )
    assert got == [expected] * 2


def test_buffers_that_differ() -> None:
    def make(rank: int) -> nn.Module:
        module = linear(1, 1)
        module.register_buffer("mean", sw.zeros(rank + 1))
        return module

    expected = differs("buffer mean (1,) float32", 1, "buffer mean (2,) float32")
    assert differing(make, 2) == [expected] * 2


def test_options_that_differ() -> None:
    def one(rank: int) -> str:
        return message(ModuleError, lambda: DistributedDataParallel(linear(1, 1), bucket_cap_mb=rank + 1))

    rest = (
        "gradient_as_bucket_view=True, find_unused_parameters=False, broadcast_buffers=True, init_sync=True"
    )
    assert (
        run_threads(one, 2)
        == [
            f"DistributedDataParallel was given different options: bucket_cap_mb=1, {rest} on rank 0, "
            f"bucket_cap_mb=2, {rest} on rank 1. Give all ranks the same."
        ]
        * 2
    )


@pytest.mark.mpi(min_size=2)
def test_a_difference_is_found_by_all_ranks_under_mpi() -> None:
    rank, last = sw.rank(), sw.world_size() - 1
    got = message(ModuleError, lambda: DistributedDataParallel(linear(1, 2 if rank == last else 1)))
    assert got == differs("weight (1, 1) float64", last, "weight (2, 1) float64")


# ---- arguments


def test_bad_arguments() -> None:
    assert message(ArgumentError, lambda: DistributedDataParallel(linear(1, 1), bucket_cap_mb=0)) == (
        "DistributedDataParallel: bucket_cap_mb must be positive, got 0"
    )
    assert message(ModuleError, lambda: DistributedDataParallel(3)) == (  # type: ignore[arg-type]
        "DistributedDataParallel wraps a Module, not int"
    )
    for empty in (nn.ReLU(), linear(1, 1).requires_grad_(False)):
        assert message(ModuleError, lambda m=empty: DistributedDataParallel(m)) == (
            f"{type(empty).__name__} has no parameter that requires grad; it needs no DistributedDataParallel"
        )


def test_a_rank_outside_the_group() -> None:
    def one(rank: int) -> str:
        if rank == 0:
            return message(ModuleError, lambda: DistributedDataParallel(linear(1, 1), get_group((1, 2))))
        DistributedDataParallel(linear(1, 1), get_group((1, 2)))
        return ""

    assert run_threads(one, 3)[0] == (
        "rank 0 is not in the process group [1, 2]; construct DistributedDataParallel on the group's "
        "members only"
    )


def test_copies_and_pickles_are_of_the_module() -> None:
    ddp = DistributedDataParallel(linear(1, 1))
    expected = (
        "a DistributedDataParallel belongs to its running group and is neither copied nor pickled; copy "
        "or pickle "
        "its module (.module) or state_dict(), and wrap the copy"
    )
    assert message(ModuleError, lambda: copy.deepcopy(ddp)) == expected
    assert message(ModuleError, lambda: pickle.dumps(ddp)) == expected
    twin = copy.deepcopy(ddp.module)
    DistributedDataParallel(twin)(sw.tensor(X)).sum().backward()
    assert twin.weight.grad is not None
    assert ddp.module.weight.grad is None


def test_the_newest_wrapper_averages_and_the_older_refuses() -> None:
    def one(rank: int) -> tuple[str, list[float | None]]:
        module = linear(1, 1)
        old = DistributedDataParallel(module)
        old(sw.tensor(X)).sum().backward()
        new = DistributedDataParallel(module, gradient_as_bucket_view=False)
        new.zero_grad()
        new(sw.tensor(X * rank)).sum().backward()
        return message(ModuleError, lambda: old(sw.tensor(X))), grads(new)

    expected = (
        "the module was wrapped in another DistributedDataParallel, which averages its gradients now; call "
        "that one"
    )
    assert run_threads(one, 3) == [(expected, [1.0, 1.0])] * 3


def test_freezing_and_unfreezing_after_construction() -> None:
    module = linear(1, 1)
    module.bias.requires_grad_(False)
    ddp = DistributedDataParallel(module)
    module.bias.requires_grad_(True)
    assert message(ModuleError, lambda: ddp(sw.tensor(X))) == (
        "bias was frozen when DistributedDataParallel was constructed and requires grad now, so its "
        "gradient would "
        "not be averaged; construct DistributedDataParallel again"
    )

    def one(rank: int) -> list[float | None]:
        ddp = DistributedDataParallel(linear(1, 1))
        ddp(sw.tensor(X * rank)).sum().backward()
        ddp.module.bias.requires_grad_(False)
        ddp(sw.tensor(X * rank)).sum().backward()
        return grads(ddp)

    assert run_threads(one, 3) == [[2.0, 1.0]] * 3  # the frozen one keeps what it had


def test_moving_the_module_after_wrapping() -> None:
    ddp = DistributedDataParallel(linear(1, 1))
    assert message(ModuleError, ddp.float) == (
        "cannot move module.weight to <class 'numpy.float32'>: its gradients go into a bucket of "
        "DistributedDataParallel. Call to() before wrapping."
    )
    ddp.double()  # nothing to do


def test_no_second_derivatives_through_averaging() -> None:
    def one(rank: int) -> str:
        ddp = DistributedDataParallel(linear(1, 1))
        loss = ddp(sw.tensor(X)).square().sum()
        return message(AutogradError, lambda: loss.backward(create_graph=True))

    assert run_threads(one, 2) == [
        f"rank {rank}: gradients that DistributedDataParallel averages cannot be differentiated again "
        "(create_graph=True in backward); use grad() for the inner gradients"
        for rank in range(2)
    ]
