"""Regions: one node on the tape of all ranks, whatever ranks do with their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from part_oracle import array_of
from shardwise.backend.errors import AutogradError
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor, implicit_replication
from shardwise.dtensor.rule.region import region
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F
from shardwise.tensor.autograd import backward_inputs

WHOLE = np.sin(np.arange(28.0)).reshape(4, 7)  # three ranks have 3, 3 and 1 columns, four 2, 2, 2 and 1
LABELS = np.array([0, 3, 6, 2])
OPS: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda x: x.cumsum(1).square(),
    "cumprod": lambda x: x.cumprod(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "cummax": lambda x: x.cummax(1)[0] ** 2,
    "prod": lambda x: x.prod(1),
    "cross_entropy": lambda x: F.cross_entropy(x, sw.tensor(LABELS)),
    "probabilities": lambda x: F.cross_entropy(x, x.detach().softmax(1)),
    "conv1d": lambda x: F.conv1d(x.reshape(4, 1, 7), x[:1, :3].reshape(1, 1, 3), padding=1),
    "max_pool1d": lambda x: F.max_pool1d(x.reshape(4, 1, 7), 2).square(),
}


def recomputed(op: Callable[[Any], Any], x: Any) -> list[Any]:
    sw.recompute(lambda t: op(t * 2.0), x).sum().backward()
    return [x.grad]


def recomputed_twice(op: Callable[[Any], Any], x: Any) -> list[Any]:
    (slope,) = sw.grad(sw.recompute(lambda t: op(t * 2.0), x).sum(), [x], create_graph=True)
    slope.square().sum().backward()
    return [slope, x.grad]


def kept(op: Callable[[Any], Any], x: Any) -> list[Any]:
    total = op(x).sum()
    total.backward(retain_graph=True)
    total.backward()
    with pytest.raises(AutogradError, match="retain_graph=True"):
        total.backward()
    return [x.grad]


def in_halves(op: Callable[[Any], Any], x: Any) -> list[Any]:
    received = (x.detach() * 1.0).requires_grad_()
    slopes, rest = backward_inputs([op(received * x).sum()], None, [received])
    rest.run()
    return [slopes[0], x.grad]


def heard(op: Callable[[Any], Any], x: Any) -> list[Any]:
    between, seen = x * 3.0, []
    between.register_hook(seen.append)
    between.retain_grad()
    op(between).sum().backward()
    return [x.grad, between.grad, seen[0]]


WAYS = (recomputed, recomputed_twice, kept, in_halves, heard)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", OPS)
def test_every_way_back(name: str, way: Callable[..., list[Any]]) -> None:
    wanted = [each.detach().numpy() for each in way(OPS[name], sw.tensor(WHOLE, requires_grad=True))]

    def go(rank: int) -> None:
        x = distribute_tensor(sw.tensor(WHOLE), DeviceMesh("cpu", [0, 1, 2]), ["S(1)"])
        x.requires_grad = True
        with implicit_replication():
            got = way(OPS[name], x)
        for each, value in zip(got, wanted, strict=True):
            np.testing.assert_allclose(array_of(each.detach()), value, rtol=1e-9, atol=1e-9)

    run_threads(go, 3)


@pytest.mark.parametrize("linear", ["", "all"])
def test_ranks_may_go_ways_of_their_own(linear: Any) -> None:
    """One rank gives its part back, one computes, one has no gradient; the tape of all is the same."""

    def within(local: Any, rank: int) -> Any:
        if rank == 0:
            return local
        if rank == 1:
            return (local * local * local).relu() * 2.0
        return sw.zeros(*local.shape, dtype=sw.float64)

    def go(rank: int) -> tuple[list[float], list[float], bool]:
        x = distribute_tensor(sw.tensor(np.arange(1.0, 7.0)), DeviceMesh("cpu", [0, 1, 2]), ["S(0)"])
        x.requires_grad = True
        out = region("Own", lambda local: within(local, rank), [x], [x.layout], linear)
        (slope,) = sw.grad(out.sum(), [x], create_graph=True)
        tracked = slope.requires_grad
        if tracked:
            (slope * slope).sum().backward()
        return slope.tolist(), [] if x.grad is None else x.grad.tolist(), tracked

    if linear:  # as it was promised, no gradient depends on the input
        assert run_threads(go, 3) == [([1.0, 1.0, 54.0, 96.0, 0.0, 0.0], [], False)] * 3
    else:
        second = [0.0, 0.0, 2 * 54.0 * 36.0, 2 * 96.0 * 48.0, 0.0, 0.0]
        assert run_threads(go, 3) == [([1.0, 1.0, 54.0, 96.0, 0.0, 0.0], second, True)] * 3


def test_what_is_not_saved_is_let_go() -> None:
    """A loss of scores in parts keeps their exponentials and not the scores."""

    def go(rank: int) -> tuple[int, int]:
        mesh = DeviceMesh("cpu", [0, 1])
        x = distribute_tensor(sw.tensor(np.ones((64, 100))), mesh, ["S(1)"]).requires_grad_()
        scores = x * 2.0
        losses = F.cross_entropy(scores, distribute_tensor(np.zeros(64, int), mesh, ["R"]), reduction="none")
        node, regions = losses.node, []
        while node.__class__.__name__ == "Node":
            regions += [node] if hasattr(node, "held") else []
            node = node._targets[0]
        leaf = regions[-1].held[0].leaves[0]
        size = leaf.data.nbytes if isinstance(leaf.data, np.ndarray) else 0
        losses.sum().backward()
        return size, sum(len(each.held) for each in regions)

    assert run_threads(go, 2) == [(0, 0)] * 2
