"""Construction and random numbers between processes, as between threads."""

from __future__ import annotations

import numpy as np
import pytest

import shardwise as sw
from shardwise.dtensor import check_replicas, distribute_tensor, from_local, local_map, rand
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F

WHOLE = np.arange(35.0).reshape(7, 5)


@pytest.mark.mpi(min_size=2)
def test_wholes_and_parts() -> None:
    mesh = DeviceMesh("cpu", list(range(sw.world_size())))
    for placements in (["R"], ["S(0)"], ["S(1)"], ["P"]):
        x = distribute_tensor(WHOLE if sw.rank() == 0 else WHOLE * 0, mesh, placements)
        np.testing.assert_array_equal(x.full_tensor().numpy(), WHOLE)
        check_replicas(x)
        later = x.redistribute(placements=["S(1)"], async_op=True)
        np.testing.assert_array_equal((later * 2).full_tensor().numpy(), 2 * WHOLE)
    uneven = from_local(np.full(sw.rank(), sw.rank()), mesh, ["S(0)"])
    wanted = [rank for rank in range(sw.world_size()) for _ in range(rank)]
    assert uneven.tolist() == wanted
    assert local_map(lambda part: part[:1], ["S(0)"])(uneven).shape == (sw.world_size() - 1,)


@pytest.mark.mpi(min_size=2)
def test_random_numbers() -> None:
    mesh = DeviceMesh("cpu", list(range(sw.world_size())))
    sw.manual_seed(5)
    wanted = F.dropout(sw.rand(7, 5)).numpy()
    for placements in (["R"], ["S(0)"], ["S(1)"]):
        sw.manual_seed(5)
        x = F.dropout(rand(7, 5, mesh=mesh, placements=placements))
        np.testing.assert_array_equal(x.full_tensor().numpy(), wanted)
