"""Whether a rank's output ends up on a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command import clean_environment
from shardwise.launch import on_terminal, terminal_width
from shardwise.launch.terminal import TERMINAL_VARIABLE


class File(io.StringIO):
    """A text file with a descriptor of its own choice."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def fileno(self) -> int:
        return self._number


@pytest.mark.parametrize(
    ("streams", "number", "expected"),
    [
        ("stdout,stderr", 1, True),
        ("stdout", 2, False),
        ("stderr", 2, True),
        ("", 1, False),
        ("stdout", 7, False),
    ],
)
def test_the_launcher_says_which_streams_are_shown(
    streams: str, number: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TERMINAL_VARIABLE, streams)
    assert on_terminal(File(number)) is expected


def test_a_file_in_memory_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TERMINAL_VARIABLE, "stdout,stderr")
    assert on_terminal(io.StringIO()) is False


def test_a_terminal_is_one_without_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TERMINAL_VARIABLE, raising=False)
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as file:
        assert on_terminal(file) is True
    os.close(master)


@pytest.mark.parametrize(("columns", "expected"), [("57", 57), ("1", 1)])
def test_the_width_is_what_the_launcher_says(
    columns: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == expected


def test_ranks_of_a_job_on_a_terminal_know_it(script: Callable[[str], Path]) -> None:
    path = script("""
        import sys
        from shardwise.launch import on_terminal, terminal_width
        print(on_terminal(), on_terminal(sys.stderr), terminal_width(), sys.stdout.isatty())
    """)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "shardwise", "run", "-n", "2", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        env=clean_environment(COLUMNS="90", NO_COLOR="1"),
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            data = os.read(master, 1 << 12)
        except OSError:  # Linux says so at the end of a terminal
            break
        if not data:
            break
        shown += data
    os.close(master)
    process.communicate(timeout=150)
    width = 90 - len("[r0] ") - 1
    assert process.returncode == 0
    assert sorted(shown.decode().replace("\r\n", "\n").splitlines()) == [
        f"[r{rank}] True False {width} False" for rank in range(2)
    ]
