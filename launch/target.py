"""Check that a script or module is there, before n processes find out that it is not."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence

from shardwise.backend.errors import LaunchError

__all__ = ["check_target"]


def check_target(target: Sequence[str]) -> None:
    """Make sure that Python would find what ranks are to run.

    Parameters
    ----------
    target : sequence of str
        ``(script, *arguments)`` or ``("-m", module, *arguments)``.

    Raises
    ------
    LaunchError
        With one line that says what is missing. Nothing of the script or module is executed to find out.
    """
    if target[0] == "-m":
        _check_module(target[1])
    else:
        _check_script(target[0])


def _check_script(path: str) -> None:
    if os.path.isdir(path):
        if not os.path.isfile(os.path.join(path, "__main__.py")):
            raise LaunchError(f"cannot run the folder {path!r}: it has no __main__.py")
        return
    if not os.path.exists(path):
        hint = ""
        if not path.endswith(".py") and os.path.sep not in path and path.replace(".", "").isidentifier():
            hint = f" (a module is run with -m {path})"
        raise LaunchError(f"there is no script {path!r} in {os.getcwd()}{hint}")
    if not os.access(path, os.R_OK):
        raise LaunchError(f"the script {path!r} cannot be read: permission denied")


def _check_module(name: str) -> None:
    """Look the module up package by package, since ``find_spec("a.b")`` would import ``a``."""
    places: Sequence[str] | None = None if sys.flags.safe_path else [os.getcwd(), *sys.path]
    parts = name.split(".")
    for depth, _ in enumerate(parts, start=1):
        partial = ".".join(parts[:depth])
        spec = importlib.machinery.PathFinder.find_spec(partial, places)
        if spec is None and depth == 1:
            spec = _find_elsewhere(partial)
        if spec is None:
            raise LaunchError(
                f"no module named {partial!r} for {sys.executable}"
                + (f" (in {name!r})" if partial != name else "")
            )
        if spec.submodule_search_locations is None:
            if depth < len(parts):
                raise LaunchError(f"no module named {name!r}: {partial!r} is not a package")
            return
        places = list(spec.submodule_search_locations)
    if importlib.machinery.PathFinder.find_spec(f"{name}.__main__", places) is None:
        raise LaunchError(f"{name!r} is a package without __main__.py, so -m cannot run it")


def _find_elsewhere(name: str) -> importlib.machinery.ModuleSpec | None:
    """Built-in and frozen modules, and those of editable installs, which bring finders of their own."""
    if name in sys.modules and sys.modules[name].__spec__ is None:
        return None
    return importlib.util.find_spec(name)
