"""The page on weights from PyTorch: its code runs on a file with PyTorch's names and shapes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from house.floors import ROOT

PAGE = (ROOT / "docs" / "how-to" / "pytorch-weights.md").read_text(encoding="utf-8")


def state() -> dict[str, np.ndarray]:
    """What PyTorch saves of the page's model, with its names and shapes."""
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (100, 32)}
    for layer, features in ((0, 32), (1, 64)):
        for way in ("", "_reverse"):
            shapes[f"lstm.weight_ih_l{layer}{way}"] = (128, features)
            shapes[f"lstm.weight_hh_l{layer}{way}"] = (128, 32)
            shapes[f"lstm.bias_ih_l{layer}{way}"] = shapes[f"lstm.bias_hh_l{layer}{way}"] = (128,)
    shapes |= {"head.weight": (5, 64), "head.bias": (5,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_file(state(), "model.safetensors")
    printed: list[str] = []
    names: dict[str, Any] = {"__name__": "page", "print": lambda *v: printed.append(" ".join(map(str, v)))}
    blocks = re.findall(r"^```python\n(.+?)^```$", PAGE, re.M | re.S)
    for block in blocks:
        exec(compile(block, "pytorch-weights.md", "exec"), names)
    comments = re.findall(r"^print\(.+  # (.+)$", PAGE, re.M)
    assert printed == comments
    model, sw = names["model"], names["sw"]
    assert model(sw.tensor(np.zeros((2, 7), np.int64))).shape == (2, 7, 5)
    saved = load_file("trained.safetensors")
    for name, array in state().items():
        np.testing.assert_array_equal(saved[name], array)
