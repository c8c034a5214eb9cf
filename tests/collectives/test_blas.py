"""The cores of a rank."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from shardwise.collectives.blas import allowed_cores, limit_blas, share_of_cores


@pytest.mark.parametrize(
    ("allowed", "shares"),
    [
        ([[0, 1, 2, 3]], [4.0]),
        ([[0, 1, 2, 3]] * 4, [1.0] * 4),
        ([[0, 1], [2, 3]], [2.0, 2.0]),
        ([[0, 1]] * 4, [0.5] * 4),
        ([[0], [0]], [0.5, 0.5]),
        ([[0, 1, 2], [2]], [2.5, 0.5]),
    ],
    ids=str,
)
def test_a_core_is_shared_by_those_that_may_use_it(allowed: list[list[int]], shares: list[float]) -> None:
    assert [share_of_cores(mine, allowed) for mine in range(len(allowed))] == pytest.approx(shares)


def test_this_process_may_use_some_core() -> None:
    assert len(allowed_cores()) >= 1


def test_blas_is_limited_unless_the_user_did() -> None:
    def threads() -> set[int]:
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(limits=2, user_api="blas"):
        assert not limit_blas(1.0, {"OMP_NUM_THREADS": "8"})
        assert not limit_blas(1.0, {"OPENBLAS_NUM_THREADS": "8"})
        assert threads() <= {2}
        assert limit_blas(0.25, {"OMP_NUM_THREADS": ""})
        assert threads() <= {1}
