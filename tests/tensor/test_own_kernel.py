"""The page on own kernels: its code runs, and prints what it should."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from house.floors import ROOT
from shardwise.backend.shape import ShapeArray
from shardwise.tensor import gradgradcheck

PAGE = (ROOT / "docs" / "how-to" / "own-kernel.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "own_kernel", "printed": []}
    found["print"] = lambda *values: found["printed"].append(" ".join(map(str, values)))
    for block in re.findall(r"^```python\n(.+?)^```$", PAGE, re.M | re.S):
        exec(compile(block, "own-kernel.md", "exec"), found)
    return found


def test_the_page_prints_what_is_right(names: dict[str, Any]) -> None:
    lambert, loss, threshold = names["printed"]
    w = np.array([0.35173371, 0.56714329, 0.85260550])  # W(1/2), the omega constant, W(2)
    expected = w / (np.array([0.5, 1.0, 2.0]) * (1.0 + w))
    np.testing.assert_allclose([float(n) for n in re.findall(r"0\.\d+", lambert)], expected, rtol=1e-6)
    assert float(loss) < 0.05
    assert threshold == "[-1.5, 0.0, 1.0] [1.0, 0.0, 1.0]"


@pytest.mark.parametrize(
    ("name", "params"), [("LambertW", {}), ("Blur", {"sigma": 1.0}), ("SoftThreshold", {"t": 0.5})]
)
def test_its_operations_keep_the_rules(names: dict[str, Any], name: str, params: dict[str, Any]) -> None:
    op = names[name]
    x = sw.tensor(np.random.default_rng(0).random((2, 3, 3)) + 1.0, requires_grad=True)
    assert gradgradcheck(lambda x: op.apply(x, **params), (x,))
    out = op.apply(ShapeArray((2, 3, 3), np.float32), **params)
    assert (type(out), out.shape, out.dtype) == (ShapeArray, (2, 3, 3), np.float32)
    assert op.apply(x.detach().bfloat16(), **params).dtype == "bfloat16"
