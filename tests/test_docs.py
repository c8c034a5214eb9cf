"""The documentation shows what there is: docstrings that run, a page per package, a line per dependency."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import tomllib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from house.floors import FLOORS, ROOT, THIRD_PARTY, matches
from house.source import read_tree
from shardwise.backend.array import Array
from shardwise.tensor import Context, Function, gradcheck, gradgradcheck
from shardwise.tensor.function import Gradients

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
def test_the_reference_shows_what_a_package_offers(folder: str) -> None:
    package = importlib.import_module(f"shardwise.{folder}")
    page = ROOT / "docs" / "reference" / f"{folder}.md"
    public: list[str] = getattr(package, "__all__", [])
    assert page.exists() == bool(public)
    if not public:
        return
    shown = set(re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M))
    # The page of a package shows all that its __all__ lists, but for what a submodule hides by its name.
    expected = {package.__name__}
    modules = {source.module for source in read_tree()}
    for name in public:
        if f"{package.__name__}.{name}" in modules:
            offered = getattr(package, name)
            is_module = isinstance(offered, ModuleType) and not callable(offered)
            expected.add(offered.__name__ if is_module else f"{offered.__module__}.{name}")
    assert expected == shown


def test_every_page_is_in_the_contents() -> None:
    contents = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(contents) == sorted(pages)


def test_the_example_of_an_op_runs() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [example, *_] = re.findall(r"^```python\n(.+?)^```$", text, re.M | re.S)
    names: dict[str, Any] = {"np": np, "sw": sw, "Array": Array, "Gradients": Gradients}
    names |= {
        "Context": Context,
        "Function": Function,
        "gradcheck": gradcheck,
        "gradgradcheck": gradgradcheck,
    }
    exec(compile(example, "CONTRIBUTING.md", "exec"), names)
    names["test_square"]()
    assert issubclass(names["Square"], Function)


def test_the_examples_of_a_collective_and_a_transport_are_those_of_the_code() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [_, collective, transport] = re.findall(r"^```python\n(.+?)^```$", text, re.M | re.S)
    assert collective.splitlines()[0] in {
        line.strip(" ,") for line in _read("collectives/table.py").splitlines()
    }
    assert _methods(transport, "PipeTransport") == _methods(_read("collectives/transport.py"), "Transport")
    assert all((ROOT / path).exists() for path in re.findall(r"`((?:collectives|tests)/[\w/.]+)`", text))


def test_the_notes_say_what_each_folder_of_collectives_is() -> None:
    rows = re.findall(r"^\| (`\w+/`.*?) \|", _read("docs/design/collectives.md"), re.M)
    folders = [path.parent.name for path in (ROOT / "collectives").glob("*/__init__.py")]
    assert sorted(re.findall(r"`(\w+)/`", " ".join(rows))) == sorted(folders)


def test_each_dependency_is_a_noted_decision() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}
    notes = (ROOT / "docs" / "design" / "dependencies.md").read_text(encoding="utf-8")
    assert {line.split("|")[1].strip() for line in notes.splitlines() if line.startswith("| ")} >= needed
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in notes


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _methods(text: str, name: str) -> dict[str, str]:
    """The methods of a class, with their parameters and results."""
    [found] = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name]
    methods = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    return {
        each.name: f"{ast.unparse(each.args)} -> {ast.unparse(each.returns)}"
        for each in methods
        if each.returns
    }
