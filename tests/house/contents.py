"""The rules on what a file holds and how it is called; one line per breach, as in house.imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from house.floors import FORBIDDEN_FILES, PRINTING, ROOF, matches
from house.source import Source, target

Sources = Mapping[str, Source]


def vague_file_name(sources: Sources) -> Iterator[str]:
    """A file is called by its idea, not by being useful."""
    for source in sources.values():
        for part in PurePosixPath(source.path).with_suffix("").parts:
            if part.strip("_") in FORBIDDEN_FILES:
                yield f"{source.path}: {part} says nothing; name the idea that the file holds"


def vague_class_name(sources: Sources) -> Iterator[str]:
    """Neither ``*Manager`` nor ``Base*``."""
    for source in sources.values():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                name = node.name.lstrip("_")
                if name.endswith("Manager") or (name.startswith("Base") and name[4:5].isupper()):
                    yield f"{source.path}:{node.lineno}: class {node.name}; name what it is"


def print_call(sources: Sources) -> Iterator[str]:
    """The library logs; only launch and scripts print."""
    for source in sources.values():
        if matches(source.path, PRINTING):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                yield f"{source.path}:{node.lineno}: print; use logging.getLogger(__name__)"


def busy_package(sources: Sources) -> Iterator[str]:
    """An ``__init__`` holds a docstring, absolute imports and ``__all__``; the roof is free."""
    for source in sources.values():
        if not source.is_package or source.folder == ROOF:
            continue
        for place, node in enumerate(source.tree.body):
            match node:
                case ast.Expr(value=ast.Constant(value=str())) if place == 0:
                    pass
                case ast.Import() | ast.ImportFrom():
                    pass
                case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List()):
                    pass
                case _:
                    yield f"{source.path}:{node.lineno}: defines something; a package only re-exports"


def unlisted_reexport(sources: Sources) -> Iterator[str]:
    """What an ``__init__`` imports its ``__all__`` lists, but for modules that offer nothing.

    A module whose own ``__all__`` is empty is imported for what it does to the package.
    """
    for source in sources.values():
        if not source.is_package or source.folder == ROOF:
            continue
        listed = set(_listed(source) or ())
        for one in source.imports:
            loaded = sources.get(target(sources, one))
            offers_nothing = loaded is not None and loaded is not source and _listed(loaded) == []
            if one.module != "__future__" and one.alias not in listed and not offers_nothing:
                yield f"{source.path}:{one.line}: imports {one.alias} but __all__ does not list it"


def missing_public_name(sources: Sources) -> Iterator[str]:
    """Every name in an ``__all__`` is there; the roof's lazy names are tried by test_package."""
    for source in sources.values():
        if source.is_package and source.folder == ROOF:
            continue
        listed = _listed(source)
        if listed is None:
            continue
        if len(set(listed)) != len(listed):
            yield f"{source.path}: __all__ lists a name twice"
        for name in sorted(set(listed) - set(_defined(source.tree.body))):
            yield f"{source.path}: __all__ lists {name}, which the file does not define"


def _listed(source: Source) -> list[str] | None:
    for node in source.tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.List() as value)
            ):
                return [str(name) for name in ast.literal_eval(value)]
    return None


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (each.asname or each.name.split(".")[0] for each in names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (
                    each.id for one in targets for each in ast.walk(one) if isinstance(each, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If(body=then, orelse=other) | ast.Try(body=then, orelse=other):
                yield from _defined([*then, *other])
