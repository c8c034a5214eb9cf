"""The house keeps its plan: floors, imports, names and packages (see CONTRIBUTING.md).

Every rule is tried twice: on the tree, where it must find nothing, and on small bad sources, where it
must find exactly what is wrong, so that no rule passes because it sees nothing.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess

import pytest

from house.breaches import BAD, GOOD, RULES, Rule
from house.floors import FLOORS, ROOT
from house.source import Source, read_tree


def sources_of(files: dict[str, str]) -> dict[str, Source]:
    """Sources by module name, from path and text."""
    sources = [Source(path, text) for path, text in files.items()]
    return {source.module: source for source in sources}


@pytest.fixture(scope="module")
def tree() -> dict[str, Source]:
    return {source.module: source for source in read_tree()}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Rule, tree: dict[str, Source]) -> None:
    breaches = list(rule(tree))
    assert not breaches, f"{rule.__doc__}\n" + "\n".join(breaches)


def test_the_tree_was_read_whole(tree: dict[str, Source]) -> None:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    # An unpacked sdist is no clone, and may be where there is no git; there the folders say what is there.
    git = shutil.which("git") and subprocess.run(
        listing, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if git and git.returncode == 0:
        there = {name for name in git.stdout.splitlines() if (ROOT / name).exists()}
        assert there == {source.path for source in tree.values()}
    assert {source.folder for source in tree.values()} >= {*FLOORS, "roof", "tests"}
    assert sum(len(source.imports) for source in tree.values()) > 50


def test_each_folder_has_a_floor_and_a_link() -> None:
    folders = {file.parent.name for file in ROOT.glob("*/__init__.py")}
    assert folders == set(FLOORS)
    links = {
        link.name: os.readlink(link) for link in (ROOT / "src" / "shardwise").iterdir() if link.is_symlink()
    }
    assert links == {name: f"../../{name}" for name in FLOORS}


@pytest.mark.parametrize(
    ("rule", "files", "expected"), BAD, ids=[f"{i}-{rule.__name__}" for i, (rule, _, _) in enumerate(BAD)]
)
def test_the_rule_finds_the_breach(rule: Rule, files: dict[str, str], expected: list[str]) -> None:
    assert list(rule(sources_of(files))) == expected


def test_every_rule_has_a_failing_example() -> None:
    assert {rule for rule, _, _ in BAD} == set(RULES)
    written = {
        node.name
        for source in read_tree()
        if source.path in ("tests/house/imports.py", "tests/house/contents.py")
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    assert written == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rule_lets_good_sources_pass(rule: Rule) -> None:
    assert list(rule(sources_of(GOOD))) == []
