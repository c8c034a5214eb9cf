"""Redistributions of device arrays, on the double of CuPy: the same code, by NCCL and by way of the host."""

from __future__ import annotations

import importlib
import itertools
import zlib

import numpy as np
import pytest

import shardwise as sw
from doubles import installed
from layout_oracle import local_array
from shardwise.dtensor import Layout, Spec
from shardwise.dtensor.redistribute import plan, run, run_many, start
from shardwise.mesh import DeviceMesh

WHOLE = np.arange(35, dtype=np.float32).reshape(5, 7)
SOURCES = (("R", "S(0)"), ("S(0)", "S(1)"), ("S(0)", "S(0)"), ("P", "S(0)"), ("P", "P(avg)"), ("P(max)", "R"))


def convert(rank: int) -> None:
    """Go from every layout to every other one, in each way that a plan is carried out."""
    cupy = importlib.import_module("cupy")
    with cupy.cuda.Device(rank):
        mesh = DeviceMesh("cuda", [[0, 1], [2, 3]])
        targets: list[object] = [("R", "R"), ("S(0)", "S(1)"), ("S(1)", "S(1)"), Spec((1, 0))]
        for one, other in itertools.product(SOURCES, targets):
            source, target = (Layout(mesh, each, WHOLE.shape, "f4") for each in (one, other))  # type: ignore[arg-type]
            local = cupy.asarray(local_array(WHOLE, source, rank))
            made = plan(source, target)
            again = run_many([(made, local), (made, local)])
            for result in (run(made, local), start(made, local).wait(), *again):
                assert isinstance(result, cupy.ndarray)
                np.testing.assert_array_equal(cupy.asnumpy(result), local_array(WHOLE, target, rank))


@pytest.mark.parametrize("by", ["nccl", "staged"])
def test_device_arrays(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DEVICE_TRANSPORT", by)
    with installed(zlib.crc32(by.encode())):
        sw.spawn(convert, nprocs=4, transport="threads")
