"""Many steps: nothing of one is left behind after the next, and ranks that caught errors go on."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor, raise_together
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F


def step(i: int, weight: Any, optimizer: Any, world: int) -> None:
    """Do a little of everything, on sizes, indices and meshes that come and go."""
    mesh = DeviceMesh("cpu", list(range(world)))
    rows = 8 + i % 3
    numbers = np.random.default_rng(i).normal(size=(rows, 6))
    x = distribute_tensor(sw.tensor(numbers), mesh, ["S(0)"], src_data_rank=None)
    hidden = (x @ weight.t()).relu()
    labels = distribute_tensor(np.arange(rows) % 4, mesh, ["S(0)"], src_data_rank=None)
    loss = F.cross_entropy(hidden, labels) + hidden.cumsum(0).softmax(1).square().mean()
    loss = loss + hidden[1].sum() * 0.1 + hidden[np.array([0, i % 7, 2])].sum() * 0.01
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([weight], 1.0)
    optimizer.step()
    kept = hidden.detach()
    kept[kept > kept.mean()].rebalance()
    with pytest.raises(ValueError, match=r"(?i)matmul"):
        x @ x
    with raise_together(), pytest.raises(IndexError):
        F.one_hot(labels, 3)
    repr(loss)


def run(first: int, last: int, world: int) -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", list(range(world)))
        weight = nn.Parameter(
            distribute_tensor(sw.tensor(np.ones((4, 6))), mesh, ["S(1)"], src_data_rank=None)
        )
        optimizer = optim.AdamW([weight], lr=1e-3)
        for i in range(first, last):
            step(i, weight, optimizer, world)

    run_threads(go, world)


def test_steps_leave_nothing_behind() -> None:
    counts = []
    for first, last in ((0, 21), (21, 42), (42, 84)):
        run(first, last, 2)
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert counts[2] - counts[1] < 400, counts  # a layout of a ragged size or two may still be known
