"""examples/pretrained.py: real weights, against the inference that came with them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardwise as sw

SCRIPT = Path(__file__).parents[2] / "examples" / "pretrained.py"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("g2p_en") is None,
    reason="needs the weights of g2p-en, which `make test` installs: pip install --no-deps g2p-en",
)


def load() -> Any:
    spec = importlib.util.spec_from_file_location("pretrained", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_says_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    example = load()
    assert example.main([]) == len(example.WORDS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("state")[0].split() == ["shardwise", "SH", "AA1", "R", "D", "W", "AY2", "S"]
    assert lines[-1] == "7 of 7 words said as g2p-en says them"


def test_it_says_words_that_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["Tape", "x", "o'clock", "supercalifragilisticexpialidocious"]
    assert load().main(words) == 4
    assert capsys.readouterr().out.splitlines()[-1] == "4 of 4 words said as g2p-en says them"


def test_the_weights_are_those_of_the_wheel_and_learn() -> None:
    example = load()
    package = example.folder()
    model = example.load(package)
    with np.load(package / "checkpoint20.npz") as file:
        for name, place in example.NAMES.items():
            np.testing.assert_array_equal(model.state_dict()[place].numpy(), file[name])
    model.head(model.decoder(model.sounds(sw.tensor([2])), model.read(["tape"]))).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
