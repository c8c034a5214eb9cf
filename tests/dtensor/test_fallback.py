"""What is said of ops that gather what lies in parts."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor
from shardwise.mesh import DeviceMesh


def test_large_inputs_are_named_once_by_one_rank(caplog: pytest.LogCaptureFixture) -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        large = distribute_tensor(sw.tensor(np.eye(160)), mesh, ["S(0)"])
        small = distribute_tensor(sw.tensor(np.eye(8)), mesh, ["S(0)"])
        for x in (large, large, small):
            sw.linalg.inv(x)

    with caplog.at_level(logging.WARNING, "shardwise.dtensor"):
        run_threads(go, 2)
    said: list[Any] = [each.getMessage() for each in caplog.records if each.name == "shardwise.dtensor"]
    assert said == [
        "Inv gathers input 0, Layout(float64[160, 160] on (2): S(0)), as [R]: every rank receives 102,400 "
        "bytes. It has no rule for dims that are cut so; shard another dim first, by redistribute(), or "
        "write it on parts, by local_map()"
    ]
