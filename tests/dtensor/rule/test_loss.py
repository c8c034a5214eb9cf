"""Losses of classes over sharded batches and classes against those of whole tensors; what they send."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, numbers, sizes
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F


def labels(n: int, classes: int, ignored: int | None = None) -> np.ndarray[Any, Any]:
    found = np.random.default_rng(n + classes).integers(0, classes, n)
    if ignored is not None:
        found[::3] = ignored
    return found


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("world", WORLDS)
def test_cross_entropy(reduction: Any, world: int) -> None:
    for n in sizes(world)[1:]:
        compare(
            lambda x, t: F.cross_entropy(x, t, reduction=reduction, ignore_index=-1),
            numbers(n, n), labels(n, n, -1), world=world,
        )  # fmt: skip


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("world", WORLDS)
def test_weights_and_smoothing(smoothing: float, world: int) -> None:
    for classes in sizes(world)[2:]:
        weight = np.abs(numbers(classes)) + 0.1
        for reduction in ("mean", "sum"):
            compare(
                lambda x, t, w, reduction=reduction: F.cross_entropy(
                    x, t, w.detach(), -1, reduction, smoothing
                ),
                numbers(5, classes), labels(5, classes, -1), weight, world=world, partial=False, most=12,
            )  # fmt: skip


@pytest.mark.parametrize("world", WORLDS)
def test_probabilities(world: int) -> None:
    for classes in sizes(world)[1:]:
        shares = np.abs(numbers(5, classes)) + 0.1
        weight = np.abs(numbers(classes)) + 0.1
        compare(lambda x, p: F.cross_entropy(x, p), numbers(5, classes), shares, world=world)
        compare(
            lambda x, p, w: F.cross_entropy(x, p, w.detach(), reduction="none", label_smoothing=0.1),
            numbers(5, classes), shares, weight, world=world, partial=False, most=12,
        )  # fmt: skip


@pytest.mark.parametrize("world", WORLDS)
def test_likelihoods(world: int) -> None:
    for classes in sizes(world)[2:]:
        weight = np.abs(numbers(classes)) + 0.1
        compare(
            lambda x, t, w: F.nll_loss(x, t, w.detach(), ignore_index=-1),
            numbers(5, classes), labels(5, classes, -1), weight, world=world, partial=False, most=12,
        )  # fmt: skip


def test_images() -> None:
    target = labels(24, 5).reshape(4, 2, 3)
    compare(lambda x, t: F.cross_entropy(x, t), numbers(4, 5, 2, 3), target, world=3, most=20)


def test_two_all_reduces_of_rows_and_none_backward() -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        x = distribute_tensor(sw.tensor(numbers(4, 3000)), mesh, ["S(1)"])
        x.requires_grad = True
        t = distribute_tensor(sw.tensor(labels(4, 3000)), mesh, ["R"])
        with sw.expect(all_reduce=2, others=0, max_bytes=400):
            loss = F.cross_entropy(x, t)
        with sw.expect(others=0):
            loss.backward()
        assert str(x.grad.layout) == "S(1)"
        rows = distribute_tensor(sw.tensor(numbers(7, 300)), mesh, ["S(0)"])
        rows.requires_grad = True
        t = distribute_tensor(sw.tensor(labels(7, 300)), mesh, ["S(0)"])
        with sw.expect(all_reduce=1, others=0, max_bytes=100):  # how many labels count
            loss = F.cross_entropy(rows, t)
        assert str(loss.layout) == "P"
        with sw.expect(others=0):
            loss.backward()

    run_threads(go, 3)


@pytest.mark.mpi(min_size=2)
def test_under_mpi() -> None:
    mesh = DeviceMesh("cpu", list(range(sw.world_size())))
    scores, wanted = numbers(5, 11), labels(5, 11)
    x = distribute_tensor(sw.tensor(scores), mesh, ["S(1)"])
    x.requires_grad = True
    loss = F.cross_entropy(x.log_softmax(1).cumsum(1), distribute_tensor(sw.tensor(wanted), mesh, ["S(0)"]))
    loss.backward()
    y = sw.tensor(scores, requires_grad=True)
    whole = F.cross_entropy(y.log_softmax(1).cumsum(1), sw.tensor(wanted))
    whole.backward()
    np.testing.assert_allclose(loss.item(), whole.item(), rtol=1e-12)
    np.testing.assert_allclose(x.grad.full_tensor().numpy(), y.grad.numpy(), rtol=1e-9, atol=1e-12)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_on_two_axes(data: st.DataObject) -> None:
    n, classes = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 7))
    ways = ["R", "S(0)", "S(1)"]
    placed = (data.draw(st.sampled_from(ways)), data.draw(st.sampled_from([*ways, "P"])))
    rows = (data.draw(st.sampled_from(["R", "S(0)"])), data.draw(st.sampled_from(["R", "S(0)"])))
    reduction = data.draw(st.sampled_from(["mean", "sum", "none"]))
    smoothing = data.draw(st.sampled_from([0.0, 0.1]))
    compare_on(
        lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=smoothing),
        [numbers(n, classes), labels(n, classes)], (2, 2), [placed, rows],
    )  # fmt: skip
