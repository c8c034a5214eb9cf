"""Let the doubles take the names of what they stand for, and give them back."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

__all__ = ["FOLDER", "installed"]

FOLDER = Path(__file__).parent
_NAMES = ("cupy", "cupyx")


@contextmanager
def installed(seed: int = 0) -> Iterator[ModuleType]:
    """Let the double be CuPy inside the ``with`` block.

    Parameters
    ----------
    seed : int
        Of the order in which the device does what nothing has ordered.
    """
    before = _taken_out()
    sys.path.insert(0, str(FOLDER))
    try:
        module = importlib.import_module("cupy")
        importlib.import_module("cupyx")
        engine = importlib.import_module("cupy._engine").ENGINE
        engine.reset(seed)
        yield module
    finally:
        sys.path.remove(str(FOLDER))
        _taken_out()
        sys.modules.update(before)


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in _NAMES]
    return {name: sys.modules.pop(name) for name in names}
