"""Gradients of gradients of ops that talk inside, against those on whole tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from part_oracle import numbers
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, distribute_tensor, implicit_replication
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F

TARGET = np.array([0, 3, 6, 2])
OPS: dict[str, Any] = {
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(1),
    "norm": lambda x: x.norm(2, 1),
    "norm 3": lambda x: x.norm(3, 1),
    "prod": lambda x: x.prod(1),
    "mean": lambda x: x.mean(1) ** 2,
    "amax": lambda x: x.amax(1) ** 3,
    "max": lambda x: x.max(1)[0] ** 3,
    "layer_norm": lambda x: F.layer_norm(x, 7),
    "rms_norm": lambda x: F.rms_norm(x, 7),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: F.group_norm(x.reshape(2, 2, 7), 1),
    "cumsum": lambda x: x.cumsum(1) ** 2,
    "cumprod": lambda x: x.cumprod(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "cummax": lambda x: x.cummax(1)[0] ** 2,
    "cummin": lambda x: x.cummin(1)[0] ** 2,
    "nll": lambda x: F.nll_loss(x.sin(), sw.tensor(TARGET)),
    "probabilities": lambda x: F.cross_entropy(x, x.softmax(1)),
    "cross_entropy": lambda x: F.cross_entropy(x, sw.tensor(TARGET), label_smoothing=0.1),
}


def second(fn: Any, x: Any) -> Any:
    """Give the gradient of a sum of squares of the gradient."""
    with implicit_replication():
        out = fn(x)
        (g,) = sw.autograd.grad((out * out).sum(), [x], create_graph=True)
        (gg,) = sw.autograd.grad((g * g * 0.5).sum(), [x])
    return (gg.full_tensor() if isinstance(gg, DTensor) else gg).numpy()


@pytest.mark.parametrize("placement", ["S(0)", "S(1)"])
@pytest.mark.parametrize("name", OPS)
def test_second_gradients(name: str, placement: str) -> None:
    array = np.sin(numbers(4, 7)) + 0.1 * numbers(4, 7)

    def go(rank: int) -> Any:
        x = distribute_tensor(sw.tensor(array), DeviceMesh("cpu", [0, 1, 2]), [placement])
        x.requires_grad = True
        return second(OPS[name], x)

    whole = second(OPS[name], sw.tensor(array, requires_grad=True))
    for got in run_threads(go, 3):
        np.testing.assert_allclose(got, whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", [*OPS, "soft", "likelihood", "argmax", "cummax", "number"])
def test_ranks_outside_of_the_mesh_go_along(name: str) -> None:
    others = {
        "soft": lambda x: F.cross_entropy(x, x.softmax(1)),
        "likelihood": lambda x: F.nll_loss(x, sw.tensor(TARGET)),
        "argmax": lambda x: x.argmax(1),
        "cummax": lambda x: x.cummax(1)[0],
        "number": lambda x: x.sum() + 1.0,
    }

    def go(rank: int) -> tuple[str, str]:
        mesh = DeviceMesh("cpu", [0, 2])
        x = distribute_tensor(sw.tensor(np.sin(numbers(4, 7))), mesh, ["S(1)"])
        x.requires_grad = True
        with implicit_replication():
            out = {**OPS, **others}[name](x)
            if out.requires_grad:
                out.sum().backward()
        return str(out.layout), "none" if x.grad is None else str(x.grad.layout)

    assert len(set(run_threads(go, 3))) == 1
