"""Scripts written for PyTorch run after their imports were changed, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from house.floors import ROOT

SCRIPTS = Path(__file__).parent / "torch_scripts"
PAGE = (ROOT / "docs" / "how-to" / "from-pytorch.md").read_text(encoding="utf-8")


def ported(source: str) -> str:
    """Change the imports of a script."""
    source = re.sub(r"^import torch$", "import shardwise as torch", source, flags=re.M)
    return re.sub(r"^(import|from) torch\b", r"\1 shardwise", source, flags=re.M)


@pytest.mark.parametrize(("script", "falls_to"), [("convnet", 0.75), ("char_lstm", 0.4)])
def test_a_script_learns(script: str, falls_to: float) -> None:
    source = ported((SCRIPTS / f"{script}.txt").read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": script}
    exec(compile(source, script, "exec"), names)
    losses = names["main"]()
    assert losses[-1] < falls_to * losses[0]


def test_the_script_of_the_page_learns(capsys: pytest.CaptureFixture[str]) -> None:
    [script] = re.findall(r"^```python\n(.+?)^```$", PAGE, re.M | re.S)
    assert ported(script) == script
    exec(compile(script, "from-pytorch.md", "exec"), {})
    found = re.fullmatch(r"loss (\d\.\d\d)\n", capsys.readouterr().out)
    assert found is not None
    assert float(found[1]) < 0.3
