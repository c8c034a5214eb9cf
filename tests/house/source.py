"""One Python file of the tree, and every import that it makes, however it makes it."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from house.floors import FLOORS, ROOF, ROOT, SCRIPTS

# Where an import stands: at the top of a module, inside a function, or under `if TYPE_CHECKING`.
Place = Literal["top", "function", "typing"]


@dataclass(frozen=True)
class Import:
    """One imported name: ``from module import name``, or ``import module`` with no name."""

    line: int
    module: str
    name: str | None
    alias: str
    level: int
    place: Place
    computed: bool = False


@dataclass(frozen=True)
class Source:
    """A file by its path from the root (``"mesh/mesh.py"``) and its text."""

    path: str
    text: str

    @property
    def folder(self) -> str:
        """The folder of the house that it belongs to; `ROOF` for src/shardwise itself."""
        first = self.path.split("/")[0]
        return ROOF if first == "src" else first

    @property
    def is_package(self) -> bool:
        return self.path.endswith("/__init__.py")

    @property
    def is_script(self) -> bool:
        return self.folder in SCRIPTS

    @property
    def module(self) -> str:
        """The name that it is imported by, ``shardwise.mesh.mesh``; scripts get their path."""
        parts = self.path.removesuffix(".py").split("/")
        if self.is_package:
            parts = parts[:-1]
        if self.is_script:
            return ".".join(parts)
        return ".".join(parts[1:] if parts[0] == "src" else ["shardwise", *parts])

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def imports(self) -> list[Import]:
        """All imports: at the top, in functions, for the type checker, and by `import_module`."""
        return list(_imports(self.tree, "top"))


def read_tree() -> list[Source]:
    """Read every Python file of the house and of the script folders, sorted by path."""
    folders = [ROOT / name for name in (*FLOORS, *SCRIPTS)]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    files += (ROOT / "src" / "shardwise").glob("*.py")
    names = sorted(file.relative_to(ROOT).as_posix() for file in files)
    return [Source(name, (ROOT / name).read_text(encoding="utf-8")) for name in names]


def target(modules: Container[str], one: Import) -> str:
    """Resolve an import to the module that it loads: ``from a import b`` is ``a.b`` if that is one."""
    submodule = f"{one.module}.{one.name}"
    return submodule if submodule in modules else one.module


def _imports(node: ast.AST, place: Place) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = place
        match child:
            case ast.Import(names=names):
                for each in names:
                    alias = each.asname or each.name.split(".")[0]
                    yield Import(child.lineno, each.name, None, alias, 0, place)
            case ast.ImportFrom(module=module, names=names, level=level):
                for each in names:
                    alias = each.asname or each.name
                    yield Import(child.lineno, module or "", each.name, alias, level, place)
            case (
                ast.Call(func=ast.Name(id="import_module" | "__import__"))
                | ast.Call(func=ast.Attribute(attr="import_module"))
            ):
                yield _by_call(child, place)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                inside = "function"
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from _imports(ast.Module(child.body, []), "typing")
                child = ast.Module(child.orelse, [])
        yield from _imports(child, inside)


def _by_call(call: ast.Call, place: Place) -> Import:
    match call.args:
        case [ast.Constant(value=str(name)), *_]:
            module = name.lstrip(".")
            return Import(call.lineno, module, None, "", len(name) - len(module), place)
        case _:
            return Import(call.lineno, "", None, "", 0, place, computed=True)
