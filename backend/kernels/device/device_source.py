"""The text of CUDA code: a file with all that it includes, as NVRTC takes it, and its elements' type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np

from shardwise.backend.array import DTypeLike

__all__ = ["FLOATS", "DeviceSource"]

FLOATS = ("float32", "float64", "float16", "bfloat16")
"""The element types that kernels are compiled for, unless they say otherwise."""

_INCLUDE = re.compile(r'#include "(.+)"')
_LAMBDAS = "--device-as-default-execution-space"  # else lambdas would be functions of the host
_NAMES = {"float32": "float", "float64": "double"}


class DeviceSource:
    """One file of CUDA kernels, to be compiled once for each type of elements.

    Includes are put in place here: CuPy keeps what it compiled under a digest of the text that it was
    given, and would not notice a change in an included file.

    Parameters
    ----------
    file : str
        Counted from the folder of all kernels, as the files that it includes are.
    exact : bool, default False
        Forbid fused multiply-adds, so that results agree bit for bit with NumPy's.
    given : mapping of str to str, optional
        Included files that are not on disk: their names and texts.
    dtypes : tuple of str
        What it can be compiled for.

    Examples
    --------
    >>> "softmax_forward" in DeviceSource("row/softmax.cu").text
    True
    """

    def __init__(
        self,
        file: str,
        exact: bool = False,
        given: Mapping[str, str] | None = None,
        dtypes: tuple[str, ...] = FLOATS,
    ) -> None:
        self.file = file
        self.folder = Path(__file__).parent.parent
        self.dtypes = dtypes
        self._exact = exact
        self._given = dict(given or {})

    def __repr__(self) -> str:
        return f"DeviceSource({self.file!r})"

    @cached_property
    def text(self) -> str:
        """The whole source."""
        return "\n".join(self._lines(self.file, set())) + "\n"

    def options(self, dtype: DTypeLike) -> tuple[str, ...]:
        """What NVRTC is told, for arrays of `dtype`."""
        name = np.dtype(dtype).name
        contraction = ("--fmad=false",) if self._exact else ()
        return ("--std=c++17", f"-DREAL={_NAMES.get(name, name)}", _LAMBDAS, *contraction)

    def _lines(self, name: str, included: set[str]) -> list[str]:
        included.add(name)
        text = self._given.get(name) or (self.folder / name).read_text(encoding="utf-8")
        lines = [f'#line 1 "{name}"']
        for number, line in enumerate(text.splitlines(), 1):
            include = _INCLUDE.fullmatch(line.strip())
            if include is None:
                lines.append("" if line.strip() == "#pragma once" else line)
            elif include[1] not in included:
                lines += [*self._lines(include[1], included), f'#line {number + 1} "{name}"']
            else:
                lines.append("")
        return lines
