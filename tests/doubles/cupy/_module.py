"""CUDA code, which the double does not compile: the plain formulas run in its place."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["RawModule"]


class RawModule:
    """Source that has no compiler."""

    def __init__(self, code: str, *, options: tuple[str, ...] = ()) -> None:
        self.code = code
        self.options = options

    def get_function(self, name: str) -> NoReturn:
        raise RuntimeError("the double has no compiler")
