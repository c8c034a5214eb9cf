"""The GPT of the examples in tensor and sequence parallel: what it sends, and the losses of one rank."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from gpt import GPT, split
from shardwise import nn, optim
from shardwise.backend.errors import LayoutError
from shardwise.collectives import Explanation, all_gather, explain, run_threads
from shardwise.dtensor import DTensor, distribute_tensor
from shardwise.parallel import DistributedDataParallel, local_rows, loss_parallel

BATCH, CONTEXT, STEPS, DIM, HEADS = 12, 16, 8, 24, 12
BOUND = {"float32": 3e-6, "float64": 1e-11}  # relative, as losses must agree
MESHES = [(1, 2), (1, 3), (2, 1), (2, 2), (1, 4)]


def batches(steps: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    starts = rng.integers(0, 97, (steps, BATCH, 1))
    return [(start + np.arange(CONTEXT + 1) * 3) % 101 for start in starts]


def train(dp: int, tp: int, sequence: bool, dtype: str, heads: int = HEADS) -> tuple[list[float], Any]:
    """Train on a mesh; return the losses of the global batches and the weights."""
    mesh = sw.init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
    sw.manual_seed(3)
    model = GPT(layers=2, dim=DIM, heads=heads, context=CONTEXT, dropout=0.1).to(dtype)
    if tp > 1:
        split(model, mesh["tp"], sequence)
    ddp = DistributedDataParallel(model, device_mesh=mesh["dp"])
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    group = mesh["dp"].get_group()
    losses = []
    for windows in batches(STEPS):
        mine = windows[local_rows(BATCH, group)]
        loss = ddp(sw.tensor(mine[:, :-1]), sw.tensor(mine[:, 1:]))
        opt.zero_grad()
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        losses.append(float(np.mean(all_gather(np.array([loss.item()]), group))))
    return losses, {name: t.detach().numpy() for name, t in model.state_dict().items()}


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return {dtype: run_threads(lambda _, d=dtype: train(1, 1, False, d), 1)[0] for dtype in BOUND}


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("sequence", [False, True], ids=["plain", "sequence"])
@pytest.mark.parametrize(("dp", "tp"), MESHES, ids=str)
def test_every_mesh_trains_as_one_rank_does(
    dp: int, tp: int, sequence: bool, dtype: str, alone: dict[str, Any]
) -> None:
    runs = run_threads(lambda _: train(dp, tp, sequence, dtype), dp * tp)
    losses, weights = alone[dtype]
    for run in runs:
        np.testing.assert_allclose(run[0], losses, rtol=BOUND[dtype], atol=0)
        assert run[0] == runs[0][0]
        for name, array in run[1].items():
            np.testing.assert_array_equal(array, runs[0][1][name])
            if dtype == "float64":
                np.testing.assert_allclose(array, weights[name], rtol=0, atol=1e-6)
    assert losses[-1] < losses[0] - 0.3  # and it does learn


def counted(layers: int, tp: int, sequence: bool) -> tuple[Counter[str], Counter[str]]:
    """Return how often each collective runs in forward and in backward, on rank 0."""

    def body(_: int) -> tuple[Counter[str], Counter[str]]:
        mesh = sw.init_device_mesh("cpu", (tp,), mesh_dim_names=("tp",))
        model = split(GPT(layers, DIM, HEADS, CONTEXT, dropout=0.1), mesh, sequence)
        (windows,) = batches(1)
        with explain(compute=False) as forward:
            loss = model(sw.tensor(windows[:, :-1]), sw.tensor(windows[:, 1:]))
        with explain(compute=False) as backward:
            loss.backward()
        assert all(isinstance(p.grad, DTensor) for p in model.parameters())
        return ops(forward), ops(backward)

    return run_threads(body, tp)[0]


def ops(moved: Explanation) -> Counter[str]:
    return Counter(record.op for record in moved)


@pytest.mark.parametrize("tp", [2, 3])
def test_a_block_takes_two_all_reduces_each_way(tp: int) -> None:
    one, three = counted(1, tp, False), counted(3, tp, False)
    for few, many in zip(one, three, strict=True):
        assert many - few == {"all_reduce": 4}  # two more blocks


@pytest.mark.parametrize("tp", [2, 3])
def test_a_block_in_sequence_parallel_gathers_and_scatters_twice_each_way(tp: int) -> None:
    one, three = counted(1, tp, True), counted(3, tp, True)
    for few, many in zip(one, three, strict=True):
        assert many - few == {"all_gather": 4, "reduce_scatter": 4}


@pytest.mark.parametrize("sequence", [False, True], ids=["plain", "sequence"])
def test_logits_are_not_gathered(sequence: bool) -> None:
    """The loss takes the largest logit of each row, then two sums."""
    rows = BATCH * CONTEXT

    def body(_: int) -> None:
        mesh = sw.init_device_mesh("cpu", (3,), mesh_dim_names=("tp",))
        model = split(GPT(1, DIM, HEADS, CONTEXT), mesh, sequence)
        (windows,) = batches(1)
        with loss_parallel():
            loss, forward = recorded(lambda: model(sw.tensor(windows[:, :-1]), sw.tensor(windows[:, 1:])))
        _, backward = recorded(loss.backward)
        assert {"P(max)": [(rows, 1)], "P": [(2, rows)]} == forward
        assert not backward

    def recorded(run: Any) -> tuple[Any, dict[str, list[tuple[int, ...]]]]:
        """Return what a function gives, and the shapes with a number per row that moved for it."""
        with explain(compute=False) as moved:
            result = run()
        found: dict[str, list[tuple[int, ...]]] = {}
        for record in moved:
            assert DIM in record.shape or rows in record.shape or record.op == "all_reduce", record
            if rows in record.shape:
                found.setdefault(str(record.conversion.source), []).append(record.shape)
        return result, found

    run_threads(body, 3)


def test_loss_parallel_refuses_logits_that_were_gathered() -> None:
    def body(_: int) -> None:
        mesh = sw.init_device_mesh("cpu", (2,))
        whole = distribute_tensor(sw.zeros(2, 4), mesh)
        with (
            loss_parallel(),
            pytest.raises(LayoutError, match=r"^loss_parallel: the classes of the logits are not sharded: "),
        ):
            nn.functional.cross_entropy(whole, distribute_tensor(sw.tensor([0, 3]), mesh))

    run_threads(body, 2)


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(
        LayoutError, match=r"^view: .*float32\[12, 16, 72\] on \(tp=4\): S\(2\)\) cannot be seen in"
    ):
        run_threads(lambda _: train(1, 4, False, "float32", heads=6), 4)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("sequence", [False, True], ids=["plain", "sequence"])
def test_ranks_under_mpi_train_as_one_rank_does(sequence: bool, alone: dict[str, Any]) -> None:
    losses, _ = train(1, sw.world_size(), sequence, "float64")
    np.testing.assert_allclose(losses, alone["float64"][0], rtol=BOUND["float64"], atol=0)
