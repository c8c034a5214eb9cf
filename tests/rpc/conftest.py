"""Collections of garbage that look at what a test has made, and not at all that the suite holds by then."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quick_collections() -> Iterator[None]:
    gc.freeze()
    yield
    gc.unfreeze()
