"""A sample of the rules between processes, where the other tests have threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from part_oracle import array_of, numbers, tensor_in
from shardwise.collectives import all_gather_object
from shardwise.dtensor import DTensor, halo_exchange
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F

ROWS = np.array([3, 0, -1, 3])
OPS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[1:8:2],
    "backwards": lambda x: x[::-1] * 2.0,
    "roll": lambda x: x.roll(2, 0),
    "join": lambda x: sw.cat([x, x[:3]], 0),
    "look up": lambda x: x[ROWS],
    "mask": lambda x: x[x[:, 0] > 0],
    "reshape": lambda x: x.reshape(6, 6),
    "sort": lambda x: x[:, 1].sort()[0],
    "top": lambda x: x.topk(2, 0)[0],
    "halo": lambda x: halo_exchange(x, 0, 1, 1, mode="wrap").exp() if isinstance(x, DTensor) else None,
    "convolution": lambda x: F.conv1d(x.T[None], sw.tensor(np.ones((2, 4, 3))), padding=1),
}


@pytest.mark.mpi(min_size=2)
def test_rules_between_processes() -> None:
    mesh = DeviceMesh("cpu", list(range(sw.world_size())))
    whole = numbers(9, 4)
    for name, op in OPS.items():
        x = tensor_in(whole, mesh, ["S(0)"])
        with sw.dtensor.implicit_replication():
            out = op(x)
        (out**2).sum().backward()
        plain = sw.tensor(whole, requires_grad=True)
        wanted = op(plain)
        if wanted is None:  # only parts have halos
            continue
        (wanted**2).sum().backward()
        np.testing.assert_allclose(array_of(out), array_of(wanted), err_msg=name)
        np.testing.assert_allclose(array_of(x.grad), array_of(plain.grad), err_msg=name)


@pytest.mark.mpi(min_size=2)
def test_errors_are_alike_between_processes() -> None:
    mesh = DeviceMesh("cpu", list(range(sw.world_size())))
    x = tensor_in(numbers(9, 4), mesh, ["S(0)"])
    said = []
    for wrong in (lambda: x[9], lambda: x[np.array([0, 11])], lambda: x.view(4, 9), lambda: x[0:1, 7]):
        with pytest.raises((IndexError, ValueError)) as caught:
            wrong()
        said.append(str(caught.value))
    assert all(each == said for each in all_gather_object(said))
