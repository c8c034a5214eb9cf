"""The README's first script runs as the README says, and what the README points to is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import shardwise as sw
from house.floors import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
[SCRIPT, SHARDED] = re.findall(r"^```python\n(.+?)^```$", README, re.M | re.S)

# The variance of sin(3x)y over the square, which is the loss of a model that answers with the mean.
UNTRAINED = 0.18


def run_script(rank: int) -> None:
    """Run the script as one of the ranks of this process."""
    exec(compile(SCRIPT, "README.md", "exec"), {"__name__": "__main__"})


def check(printed: str, ranks: int) -> None:
    """The script prints one line, from rank 0, and it has learned something."""
    found = re.fullmatch(r"(\d) rank\(s\): loss (\d\.\d{4})\n", printed)
    assert found is not None, printed
    assert int(found[1]) == ranks
    assert float(found[2]) < UNTRAINED / 20


@pytest.fixture
def first(tmp_path: Path) -> Path:
    script = tmp_path / "first.py"
    script.write_text(SCRIPT, encoding="utf-8")
    return script


def printed_by(*command: str | Path) -> str:
    environ = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(word) for word in command],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_alone(first: Path) -> None:
    check(printed_by(sys.executable, first), ranks=1)


def test_on_two_ranks_of_this_machine(first: Path) -> None:
    shardwise = Path(sysconfig.get_path("scripts"), "shardwise")
    check(printed_by(shardwise, "run", "-n", "2", first).removeprefix("[r0] "), ranks=2)


def test_on_two_ranks_as_threads(capsys: pytest.CaptureFixture[str]) -> None:
    sw.spawn(run_script, nprocs=2, transport="threads")
    check(capsys.readouterr().out, ranks=2)


@pytest.mark.parametrize("page", ["README.md", "docs/concepts/dtensor.md"])
def test_the_sharded_model_moves_what_the_page_says(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run(rank: int) -> None:
        exec(compile(SHARDED, "mlp.py", "exec"), {"__name__": "__main__"})

    sw.spawn(run, nprocs=4, transport="threads")
    first, head, *rows, total = capsys.readouterr().out.splitlines()
    assert total.split() == ["2", "total", "1344"]
    text = (ROOT / page).read_text(encoding="utf-8")
    assert SHARDED in text
    shown = next(
        table for table in re.findall(r"^```text\n(.+?)^```$", text, re.M | re.S) if "mlp.py" in table
    )
    told, columns, *lines = shown.splitlines()
    assert told == first
    names = re.split(r"\s{2,}", head)
    wanted = re.split(r"\s{2,}", columns)
    for row, line in zip(rows, lines, strict=False):
        cells = dict(zip(names, re.split(r"\s{2,}", row), strict=True))
        for name, cell in zip(wanted, re.split(r"\s{2,}", line), strict=True):
            assert name in ("ms", "predicted") or cells[name] == cell


def test_setting_up_takes_two_commands() -> None:
    [commands, *_] = re.findall(r"^```sh\n(.+?)^```$", README, re.M | re.S)
    assert [line.split("#")[0].strip() for line in commands.splitlines()] == ["make train", "make test"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("https://")]
    assert [link for link in links if not (ROOT / link).exists()] == []
