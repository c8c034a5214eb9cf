"""The rules on imports: each reads the sources and yields one line per breach, with what to do."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from house.floors import (
    COMPUTED_IMPORTS,
    FLOORS,
    LATE,
    LATE_FILES,
    ONLY_IN_FUNCTIONS,
    ROOF,
    ROOF_VALUES,
    THIRD_PARTY,
    matches,
)
from house.source import Import, Source, target

Sources = Mapping[str, Source]  # by module name


def upward_import(sources: Sources) -> Iterator[str]:
    """A lower floor knows nothing of a higher one, and no folder knows the roof."""
    for source, one, folder in _between_folders(sources):
        if (folder == ROOF and one.name not in ROOF_VALUES) or FLOORS.get(folder, 0) > FLOORS[source.folder]:
            yield _line(
                source, one, f"{source.folder} imports upwards from {folder}; move what it needs down"
            )


def sideways_import(sources: Sources) -> Iterator[str]:
    """Folders on one floor stand alone; what they share lies one floor down."""
    for source, one, folder in _between_folders(sources):
        if folder != ROOF and FLOORS[folder] == FLOORS[source.folder]:
            yield _line(source, one, f"{source.folder} and {folder} share a floor; put what they share below")


def import_cycle(sources: Sources) -> Iterator[str]:
    """No module reaches itself through imports, those for the type checker included."""
    edges = {
        name: {target(sources, one) for one in source.imports} & sources.keys()
        for name, source in sources.items()
        if not source.is_script
    }
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        # graphlib lists it from the imported to the importer.
        circle = error.args[1][::-1]
        yield f"{sources[circle[0]].path}: a cycle of imports: {' -> '.join(circle)}; look for the seam"


def private_import(sources: Sources) -> Iterator[str]:
    """A name with a leading underscore stays in its folder."""
    for source in sources.values():
        modules: dict[str, str] = {}
        for one in source.imports:
            loaded = target(sources, one)
            folder = _folder(loaded)
            if folder in (None, source.folder):
                continue
            names = [*loaded.split("."), one.name or ""]
            if any(_is_private(name) for name in names):
                yield _line(
                    source, one, f"{one.name or loaded} is private to {folder}; make it public or do without"
                )
            if loaded in sources:
                modules[one.alias] = loaded
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and _is_private(node.attr):
                owner = node.value
                if isinstance(owner, ast.Name) and owner.id in modules:
                    private = f"{owner.id}.{node.attr} is private to {modules[owner.id]}"
                    yield f"{source.path}:{node.lineno}: {private}"


def relative_import(sources: Sources) -> Iterator[str]:
    """Imports are absolute."""
    for source in sources.values():
        for one in source.imports:
            if one.level:
                yield _line(
                    source, one, "a relative import; write the full name, shardwise.<folder>.<module>"
                )


def short_name_import(sources: Sources) -> Iterator[str]:
    """``mesh`` would be a second copy of ``shardwise.mesh``, with its own classes and state."""
    for source in sources.values():
        for one in source.imports:
            first = one.module.split(".")[0]
            if not one.level and first in FLOORS:
                yield _line(source, one, f"imports {first} by its short name; write shardwise.{first}")


def star_import(sources: Sources) -> Iterator[str]:
    """Every imported name is written out."""
    for source in sources.values():
        for one in source.imports:
            if one.name == "*":
                yield _line(source, one, f"imports * from {one.module}; write the names")


def third_party_import(sources: Sources) -> Iterator[str]:
    """Each library has its place, so that all else runs without it."""
    for source in sources.values():
        if source.is_script:
            continue
        for one in source.imports:
            first = one.module.split(".")[0]
            if (
                one.computed
                or one.level
                or first in ("shardwise", *FLOORS)
                or first in sys.stdlib_module_names
            ):
                continue
            if first not in THIRD_PARTY:
                yield _line(
                    source,
                    one,
                    f"{first} is not a library of this house (THIRD_PARTY in tests/house/floors.py)",
                )
            elif not matches(source.path, THIRD_PARTY[first]):
                yield _line(source, one, f"{first} belongs to {', '.join(THIRD_PARTY[first])}")


def torch_import(sources: Sources) -> Iterator[str]:
    """Torch is a peer to be measured against, in benchmarks only."""
    for source in sources.values():
        for one in source.imports:
            if one.module.split(".")[0] == "torch" and source.folder != "benchmarks":
                yield _line(source, one, "torch may be imported in benchmarks only")


def late_import(sources: Sources) -> Iterator[str]:
    """Imports stand at the top, but for what is slow to import, or starts something when imported."""
    for source in sources.values():
        if source.is_script:
            continue
        for one in source.imports:
            first = one.module.split(".")[0]
            if one.computed:
                if not matches(source.path, COMPUTED_IMPORTS):
                    yield _line(source, one, "imports a computed name; write an import statement")
            elif one.place == "top" and first in ONLY_IN_FUNCTIONS:
                yield _line(
                    source, one, f"importing {first} starts it; import it inside the function that needs it"
                )
            elif one.place == "function" and first not in LATE:
                loaded = sources.get(target(sources, one))
                if loaded is None or not matches(loaded.path, LATE_FILES):
                    yield _line(source, one, "an import inside a function; put it at the top")


def _between_folders(sources: Sources) -> Iterator[tuple[Source, Import, str]]:
    for source in sources.values():
        if source.folder in FLOORS:
            for one in source.imports:
                folder = _folder(target(sources, one))
                if folder not in (None, source.folder):
                    yield source, one, folder


def _folder(module: str) -> str | None:
    """The folder of the house that a module lies in, None for a module from outside."""
    package, _, rest = module.partition(".")
    if package != "shardwise":
        return None
    first = rest.split(".")[0]
    return first if first in FLOORS else ROOF


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _line(source: Source, one: Import, message: str) -> str:
    return f"{source.path}:{one.line}: {message}"
