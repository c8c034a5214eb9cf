"""Scripts, and ways to run them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command import Ended, execute


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a script into the folder of the test."""

    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ended]:
    """Runs ``shardwise run`` with the given arguments, there."""

    def run_there(*arguments: object, stdin: str = "", **environment: str) -> Ended:
        return execute(["-m", "shardwise", "run", *arguments], tmp_path, stdin, **environment)

    return run_there
