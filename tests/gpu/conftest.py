"""Tests that need a CUDA device: marked ``gpu``, and skipped with a reason where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwise.backend.cuda import CudaBackend

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if HERE in item.path.parents]
    usable, reason = CudaBackend().available() if mine else (True, "")
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if not usable:
            item.add_marker(pytest.mark.skip(reason=reason))
