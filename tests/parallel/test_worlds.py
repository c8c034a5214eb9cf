"""One training run in worlds of 1 to 4 ranks: the same weights, batches, masks, and losses.

This is what data parallelism promises. Weights, batches and masks are compared by hash, so to the
last bit; losses differ by the order in which sums are formed, and by no more.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.collectives import all_gather, get_group, run_threads
from shardwise.parallel import DistributedDataParallel, local_rows
from shardwise.tensor import intercept

BATCH, CONTEXT, STEPS = 12, 16, 20
BOUND = {"float32": 3e-6, "float64": 1e-12}  # relative, as the losses of the first 20 steps must agree

TEXT = np.frombuffer(Path(__file__).read_bytes(), np.uint8)


def _example(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = spec_from_file_location(f"examples_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


GPT = _example("train_gpt").GPT


@dataclass
class Run:
    """What one rank saw."""

    weights: str = ""
    batches: list[str] = field(default_factory=list)  # of the global batch, per step
    masks: list[str] = field(default_factory=list)  # of the global batch, per dropout and step
    losses: list[float] = field(default_factory=list)
    final: str = ""


def _hash(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def train(dtype: str, group: Any = None, **options: Any) -> Run:
    """Train on this rank's part of each batch; gather what it saw over the group."""
    group = get_group() if group is None else group
    run = Run()
    sw.manual_seed(3)
    model = GPT(layers=2, dim=32, heads=4, context=CONTEXT, dropout=0.1).to(dtype)
    run.weights = _hash(*(p.detach().numpy() for p in model.parameters()))
    ddp = DistributedDataParallel(model, group, **options)
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    rows = local_rows(BATCH, group)

    def record_masks(function: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        out = function.apply(*args, **params)
        if function.__name__ == "Dropout":
            kept = (out.data != 0).reshape(rows.stop - rows.start, -1)
            run.masks.append(_hash(all_gather(kept, group)))
        return out

    for _ in range(STEPS):
        starts = sw.randint(0, len(TEXT) - CONTEXT - 1, BATCH).numpy()
        windows = TEXT[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int64)[rows]
        run.batches.append(_hash(all_gather(windows, group)))
        with intercept(record_masks):
            loss = ddp(sw.tensor(windows[:, :-1]), sw.tensor(windows[:, 1:]))
        opt.zero_grad()
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        run.losses.append(float(np.mean(all_gather(np.array([loss.item()]), group))))
    run.final = _hash(*(p.detach().numpy() for p in model.parameters()))
    return run


def agree(run: Run, alone: Run, dtype: str) -> None:
    """Assert that a run in a larger world is the run on one rank."""
    assert run.weights == alone.weights
    assert run.batches == alone.batches
    assert len(alone.masks) == 5 * STEPS  # behind the embeddings, and two in each of the two blocks
    assert len(set(alone.masks)) == len(alone.masks)
    assert run.masks == alone.masks
    np.testing.assert_allclose(run.losses, alone.losses, rtol=BOUND[dtype], atol=0)


@pytest.fixture(scope="module")
def alone() -> dict[str, Run]:
    return {dtype: run_threads(lambda _, d=dtype: train(d), 1)[0] for dtype in BOUND}


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("world", [2, 3, 4])
def test_every_world_trains_as_one_rank_does(world: int, dtype: str, alone: dict[str, Run]) -> None:
    runs = run_threads(lambda _: train(dtype), world)
    assert all(run == runs[0] for run in runs)  # bitwise, to the final weights
    agree(runs[0], alone[dtype], dtype)
    assert alone[dtype].losses[-1] < alone[dtype].losses[0] - 0.3  # and it does learn


@pytest.mark.parametrize("options", [{"gradient_as_bucket_view": False}, {"bucket_cap_mb": 0.001}], ids=str)
def test_the_options_of_ddp_do_not_change_the_numbers(options: dict[str, Any], alone: dict[str, Run]) -> None:
    run = run_threads(lambda _: train("float64", **options), 3)[0]
    agree(run, alone["float64"], "float64")


def test_a_run_repeats_to_the_last_bit() -> None:
    first, second = (run_threads(lambda _: train("float32"), 2)[0] for _ in range(2))
    assert first == second


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("dtype", BOUND)
def test_ranks_under_mpi_train_as_one_rank_does(dtype: str) -> None:
    run = train(dtype)
    agree(run, train(dtype, get_group([sw.rank()])), dtype)  # each rank trains once more on its own
