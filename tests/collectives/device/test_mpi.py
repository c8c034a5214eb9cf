"""Collectives on device arrays between processes, on the double, and what is built on them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import shardwise as sw
from ranks.definition import BFLOAT16, inputs, reduced
from ranks.on_device import (
    check_every_reduction,
    check_messages,
    check_movements,
    check_uneven,
    put,
    same,
)
from shardwise import collectives, nn, optim
from shardwise.backend.kernels.kernel import plain_formulas
from shardwise.nn import functional as F
from shardwise.parallel import DistributedDataParallel

# One of each kind of reduction; the others move alike, and are tried on threads.
SOME_DTYPES = (np.dtype("?"), np.dtype("h"), np.dtype("Q"), BFLOAT16, np.dtype("f"), np.dtype("F"))

pytestmark = pytest.mark.mpi(min_size=1)


@pytest.fixture(params=["nccl", "mpi-cuda", "staged"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, cupy: ModuleType) -> str:
    """How the arrays go; any MPI takes the memory of the double for that of the host."""
    monkeypatch.setenv("SHARDWISE_DEVICE_TRANSPORT", request.param)
    monkeypatch.setattr("shardwise.collectives.device.agreement.why_not_mpi_cuda", lambda device, environ: "")
    return str(request.param)


@pytest.fixture
def world(by: str, cupy: ModuleType) -> Iterator[str]:
    """This rank's device is its own; afterwards, groups agree anew on how device arrays go."""
    cupy.cuda.Device(collectives.local_rank()).use()
    yield by
    collectives.barrier()
    for group in [*collectives.get_world()._groups.values()]:
        if group._device is not None:
            group._device.close()
            group._device = None


@pytest.mark.parametrize("dtype", SOME_DTYPES, ids=str)
def test_every_dtype(dtype: np.dtype[np.generic], world: str) -> None:
    check_every_reduction(dtype, (2, 3), avg_exactly=world != "nccl" or collectives.world_size() == 1)
    check_movements(dtype, (2, 3))
    check_uneven(dtype)
    check_messages(dtype, (2, 3))
    if collectives.world_size() > 1:
        assert collectives.get_group().device_transport == world


@pytest.mark.parametrize("dtype", [np.dtype("h"), np.dtype("F"), BFLOAT16], ids=str)
def test_large(dtype: np.dtype[np.generic], world: str) -> None:
    """Of several pieces, and not divisible by the ranks."""
    n, size = collectives.world_size(), 1_200_001
    xs = inputs(n, (size,), dtype)
    for op in ("sum", "prod"):
        same(collectives.all_reduce(put(xs[collectives.rank()]), op), reduced(op, xs))
    same(collectives.broadcast(put(xs[collectives.rank()]), n - 1), xs[-1])


@pytest.mark.mpi(min_size=2)
def test_by_rank_order(world: str) -> None:
    """The bits of the definition, where NCCL's own order gives others."""
    n = collectives.world_size()
    group = collectives.new_group(range(n), deterministic="by-rank-order")
    rng = np.random.default_rng(0)
    for dtype in (np.dtype("f"), BFLOAT16, np.dtype("D")):
        xs = [(rng.standard_normal(9000) * 10.0 ** rng.integers(-3, 4, 9000)).astype(dtype) for _ in range(n)]
        same(collectives.all_reduce(put(xs[collectives.rank()]), "sum", group), reduced("sum", xs))


@pytest.mark.mpi(min_size=4)
def test_groups_in_different_orders(world: str) -> None:
    """Rows and columns of a 2 x 2 mesh, which different ranks use in different orders."""
    rank = collectives.rank()
    row = collectives.get_group([rank // 2 * 2, rank // 2 * 2 + 1])
    column = collectives.get_group([rank % 2, rank % 2 + 2])
    x = put(np.full(5, rank, np.float32))
    order = [row, column] if rank in (0, 3) else [column, row]
    works = [collectives.all_reduce(x, group=group, async_op=True) for group in order for _ in range(3)]
    for i, work in enumerate(works):
        same(work.wait(), np.full(5, sum(order[i // 3].ranks), np.float32))


@pytest.mark.mpi(min_size=2)
def test_adjoints(world: str) -> None:
    """<Ax, y> = <x, A*y>, over all ranks, on tensors of the device."""
    rng = np.random.default_rng(collectives.rank())
    n = collectives.world_size()
    forms = {
        "all_reduce": lambda x: collectives.all_reduce(x),
        "all_gather": lambda x: collectives.all_gather(x, dim=1),
        "reduce_scatter": lambda x: collectives.reduce_scatter(x),
        "all_to_all": lambda x: collectives.all_to_all(x, split_dim=0, concat_dim=1),
        "broadcast": lambda x: collectives.broadcast(x, n - 1),
        "reduce": lambda x: collectives.reduce(x, 0),
        "gather": lambda x: collectives.gather(x, 0),
        "scatter": lambda x: collectives.scatter(x, 0),
        "scan": lambda x: collectives.scan(x),
    }
    for name, form in forms.items():
        x = sw.Tensor(put(rng.standard_normal((n, 3))), requires_grad=True)
        y = form(x)
        g = sw.Tensor(put(rng.standard_normal(y.shape)))
        y.backward(g)
        assert x.grad is not None
        both = np.array([float((y.detach() * g).sum()), float((x.detach() * x.grad).sum())])
        left, right = collectives.all_reduce(both)
        assert left == pytest.approx(right), name


@pytest.mark.mpi(min_size=2)
def test_gradients_of_messages(world: str) -> None:
    rank, n = collectives.rank(), collectives.world_size()
    x = sw.Tensor(put(np.arange(3.0)), requires_grad=True)
    got = collectives.sendrecv(x, (rank + 1) % n, (rank - 1) % n)
    (got * float(rank)).sum().backward()
    assert x.grad is not None
    same(x.grad.data, np.full(3, float((rank + 1) % n)))


def train(device: str) -> tuple[list[float], list[np.ndarray]]:
    """A few steps under DDP, on this rank's rows of the same data everywhere."""
    sw.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)
    ddp = DistributedDataParallel(model, bucket_cap_mb=1e-4)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(2)
    rank, n, losses = collectives.rank(), collectives.world_size(), []
    for _ in range(3):
        x, y = rng.standard_normal((12, 6)).astype(np.float32), rng.integers(0, 3, 12)
        rows = slice(rank * (12 // n), (rank + 1) * (12 // n))
        loss = F.cross_entropy(ddp(sw.tensor(x[rows], device=device)), sw.tensor(y[rows], device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(collectives.all_reduce(loss.detach(), "avg")))
    return losses, [p.detach().cpu().numpy() for p in model.parameters()]


def test_data_parallel_training_is_that_of_the_cpu(world: str) -> None:
    with plain_formulas():
        losses, weights = train("cpu")
        device_losses, device_weights = train(collectives.local_device("cuda"))
    np.testing.assert_allclose(device_losses, losses, rtol=1e-5)
    for ours, theirs in zip(device_weights, weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
