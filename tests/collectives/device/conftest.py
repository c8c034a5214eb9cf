"""Device arrays without a device: on the double, in each way that they can go."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from types import ModuleType

import pytest

from doubles import installed


@pytest.fixture
def cupy(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The double, in the place of CuPy; every test has its own order of what nothing has ordered."""
    with installed(zlib.crc32(request.node.name.encode())) as module:
        yield module


@pytest.fixture(params=["nccl", "staged"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, cupy: ModuleType) -> str:
    """How the arrays go."""
    monkeypatch.setenv("SHARDWISE_DEVICE_TRANSPORT", request.param)
    return str(request.param)
