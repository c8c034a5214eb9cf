"""Parameters without a gradient, and a good step after a backward that broke."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.collectives import run_threads
from shardwise.errors import AutogradError
from shardwise.parallel import DistributedDataParallel

X = np.array([1.0])


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


class Parts(nn.Module):
    """Uses those of its three scalars that it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(sw.ones((), dtype=np.float64)) for _ in range(3))

    def forward(self, x: sw.Tensor, use: str) -> sw.Tensor:
        return sum((getattr(self, name) * x for name in use), x * 0.0).sum()


def grads(ddp: DistributedDataParallel) -> list[float | None]:
    return [None if p.grad is None else p.grad.item() for p in ddp.parameters()]


def test_unused_parameters_are_named() -> None:
    def one(rank: int) -> list[Any]:
        ddp = DistributedDataParallel(Parts(), bucket_cap_mb=1e-6)
        loss = ddp(sw.tensor(X), "b")
        error = message(AutogradError, loss.backward)
        ddp.zero_grad()
        ddp(sw.tensor(X * rank), "abc").backward()  # and the next step is right
        return [error, grads(ddp)]

    for rank, (error, after) in enumerate(run_threads(one, 3)):
        assert error == (
            f"rank {rank}: 2 of 3 parameters got no gradient in this backward: a, c. Use them in the "
            "loss, freeze "
            "them with requires_grad_(False), or pass find_unused_parameters=True."
        )
        assert after == [1.0, 1.0, 1.0]


def test_unused_on_one_rank_ends_the_others() -> None:
    def one(rank: int) -> None:
        ddp = DistributedDataParallel(Parts())
        ddp(sw.tensor(X), "ab" if rank == 1 else "abc").backward()

    with pytest.raises(AutogradError) as error:
        run_threads(one, 3)
    assert str(error.value) == (
        "rank 1: 1 of 3 parameters got no gradient in this backward: c. Use them in the loss, freeze "
        "them with requires_grad_(False), or pass find_unused_parameters=True."
    )


@pytest.mark.parametrize("view", [True, False])
@pytest.mark.parametrize("cap", [None, 1e-6])
def test_unused_parameters_that_are_accepted(view: bool, cap: float | None) -> None:
    """a is used on all ranks, b on some, c on none."""

    def one(rank: int) -> list[list[float | None]]:
        ddp = DistributedDataParallel(
            Parts(), find_unused_parameters=True, gradient_as_bucket_view=view, bucket_cap_mb=cap
        )
        seen = []
        for use in ("ab" if rank == 1 else "a", "ac" if rank == 2 else "a"):
            ddp(sw.tensor(X * (rank + 1)), use).backward()
            seen.append(grads(ddp))
        ddp.zero_grad()
        ddp(sw.tensor(X), "a").backward()
        seen.append(grads(ddp))
        return seen

    for seen in run_threads(one, 3):
        first, second, third = seen
        assert first == [2.0, pytest.approx(2 / 3), None]
        assert second == [4.0, pytest.approx(2 / 3), 1.0]  # b keeps what it had, c is averaged with zeros
        assert third == [1.0, None, None]
    assert len({repr(seen) for seen in run_threads(one, 3)}) == 1  # bitwise the same on all ranks


@pytest.mark.parametrize("view", [True, False])
def test_what_no_sync_used_is_averaged_though_unused_later(view: bool) -> None:
    def one(rank: int) -> list[float | None]:
        ddp = DistributedDataParallel(Parts(), find_unused_parameters=True, gradient_as_bucket_view=view)
        with ddp.no_sync():
            ddp(sw.tensor(X * rank), "b").backward()
        ddp(sw.tensor(X), "a").backward()
        return grads(ddp)

    assert run_threads(one, 3) == [[1.0, 1.0, None]] * 3


@pytest.mark.parametrize("view", [True, False])
def test_what_a_bucket_held_before_does_not_count(view: bool) -> None:
    def one(rank: int) -> list[float | None]:
        ddp = DistributedDataParallel(Parts(), find_unused_parameters=True, gradient_as_bucket_view=view)
        for use in ("ab", "ab" if rank == 1 else "a"):
            ddp.zero_grad()
            ddp(sw.tensor(X), use).backward()
        return grads(ddp)

    assert run_threads(one, 4) == [[1.0, 0.25, None]] * 4


@pytest.mark.mpi(min_size=2)
def test_unused_parameters_under_mpi() -> None:
    ddp = DistributedDataParallel(Parts(), find_unused_parameters=True, bucket_cap_mb=1e-6)
    for _ in range(3):
        ddp.zero_grad()
        ddp(sw.tensor(X), "a" if sw.rank() else "ab").backward()
    assert grads(ddp) == [1.0, pytest.approx(1 / sw.world_size()), None]


class Fuse(sw.Function):
    """Passes through, and breaks in backward."""

    signature = "*"
    blown = False

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x + 0.0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise RuntimeError("boom")


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(1, 1, dtype=np.float64) for _ in range(2))
        self.breaks = False

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        x = self.first(x)
        return self.second(Fuse.apply(x) if self.breaks else x)


@pytest.mark.parametrize("view", [True, False])
def test_a_good_step_after_a_backward_that_broke(view: bool) -> None:
    def one(rank: int) -> list[np.ndarray]:
        sw.manual_seed(0)
        ddp = DistributedDataParallel(Two(), gradient_as_bucket_view=view, bucket_cap_mb=1e-6)
        ddp.module.breaks = True
        loss = ddp(sw.tensor(X)).sum()
        assert message(RuntimeError, loss.backward) == "boom"  # when two buckets are under way
        ddp.module.breaks = False
        ddp.zero_grad()
        ddp(sw.tensor(X * rank)).sum().backward()
        return [p.grad.numpy().copy() for p in ddp.parameters()]  # type: ignore[union-attr]

    for got in run_threads(one, 3):
        sw.manual_seed(0)
        alone = Two()
        alone(sw.tensor(np.array([[0.0], [1.0], [2.0]]))).mean().backward()
        for mine, p in zip(got, alone.parameters(), strict=True):
            np.testing.assert_allclose(mine, p.grad.numpy(), rtol=1e-12)  # type: ignore[union-attr]
