"""The documentation shows what there is: docstrings that run, a page per package, a line per dependency."""

from __future__ import annotations

import doctest
import importlib
import re
import tomllib

import pytest

from house.floors import FLOORS, ROOT, THIRD_PARTY, matches
from house.source import read_tree

# Modules whose docstrings hold examples; those that need CuPy cannot be imported everywhere.
WITH_EXAMPLES = [
    source.module
    for source in read_tree()
    if not source.is_script and ">>>" in source.text and not matches(source.path, THIRD_PARTY["cupy"])
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_run(module: str) -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testmod(importlib.import_module(module), optionflags=options)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("folder", FLOORS)
def test_each_package_has_a_page_in_the_reference(folder: str) -> None:
    public = getattr(importlib.import_module(f"shardwise.{folder}"), "__all__", [])
    page = ROOT / "docs" / "reference" / f"{folder}.md"
    assert page.exists() >= bool(public), f"docs/reference/{folder}.md is missing"
    if page.exists():
        assert re.search(rf"^::: shardwise\.{folder}$", page.read_text(encoding="utf-8"), re.M)
        assert f"reference/{folder}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_each_dependency_is_a_noted_decision() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}
    notes = (ROOT / "docs" / "design" / "dependencies.md").read_text(encoding="utf-8")
    assert {line.split("|")[1].strip() for line in notes.splitlines() if line.startswith("| ")} >= needed
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in notes
