"""CUDA code compiled as C++, once per source and set of options, and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from emulated_cuda.declaration import Declaration, declarations

__all__ = ["Library", "compile_together", "compiled", "find_compiler"]

_HEADER = Path(__file__).with_name("emulation.h")
_ERRORS = {
    1: "some threads never came to a __syncthreads",
    2: "some threads never came to a shuffle",
    3: "threads wait for each other at different places",
    4: "memory beside an array was read or written",
}
_CTYPES = {"int64": ctypes.c_longlong, "uint64": ctypes.c_ulonglong, "double": ctypes.c_double}
_FLAGS = ("-std=c++20", "-O0", "-w", "-shared", "-fPIC", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE")
_KEPT: dict[tuple[str, tuple[str, ...]], Library] = {}


@functools.cache
def find_compiler() -> str | None:
    """The C++ compiler of this machine, if it has one."""
    return shutil.which(os.environ.get("CXX", "g++"))


class Library:
    """Compiled kernels.

    Parameters
    ----------
    path : Path
    number : int
        Of their source, among those that were compiled together.
    kernels : dict of str to Declaration
    """

    def __init__(self, path: Path, number: int, kernels: dict[str, Declaration]) -> None:
        self._library = ctypes.CDLL(str(path))
        self._number = number
        self._kernels = kernels

    def run(
        self, name: str, grid: tuple[int, ...], block: tuple[int, ...], values: tuple[float | int, ...]
    ) -> None:
        """Run all threads of a launch; pointers are given as numbers.

        Raises
        ------
        AssertionError
            If threads wait for others that never come.
        """
        sizes = [(ctypes.c_uint * 3)(*size, *(1,) * (3 - len(size))) for size in (grid, block)]
        given = [
            ctypes.c_void_p(int(value)) if parameter.pointer else _CTYPES[parameter.kind](value)
            for parameter, value in zip(self._kernels[name].parameters, values, strict=True)
        ]
        error = getattr(self._library, f"launch_{self._number}_{name}")(*sizes, *given)
        assert error == 0, f"{name}, blocks {grid} of {block} threads: {_ERRORS[error]}"


def compiled(source: str, options: tuple[str, ...]) -> Library:
    """Compile `source` with what NVRTC would be told in `options`, unless that was done before."""
    if (source, options) not in _KEPT:
        compile_together([source], options)
    return _KEPT[source, options]


def compile_together(sources: Sequence[str], options: tuple[str, ...]) -> None:
    """Compile sources in one go, for `compiled` to find: less work than one after the other."""
    flags = [
        *_FLAGS,
        *(option for option in options if option.startswith("-D")),
        f"-ffp-contract={'off' if '--fmad=false' in options else 'fast'}",
    ]
    kernels = [declarations(source) for source in sources]
    parts = [f'#include "{_HEADER}"']
    for number, source in enumerate(sources):
        # Functions of two sources may have the same name.
        own = source.replace('extern "C" __global__', "static")
        launchers = [_launcher(number, kernel) for kernel in kernels[number].values()]
        parts += [f"namespace source_{number} {{", own, "}", *launchers]
    path = _built("\n".join(parts), flags)
    for number, source in enumerate(sources):
        _KEPT[source, options] = Library(path, number, kernels[number])


def _built(text: str, flags: Sequence[str]) -> Path:
    """The library, in a folder where the next run of the tests finds it too."""
    digest = hashlib.sha256("\0".join([text, _HEADER.read_text(), *flags]).encode()).hexdigest()[:20]
    folder = Path(tempfile.gettempdir()) / f"shardwise-emulated-cuda-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{digest}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as building:
            code, made = Path(building) / "code.cpp", Path(building) / "code.so"
            code.write_text(text)
            done = subprocess.run(
                [str(find_compiler()), *flags, str(code), "-o", str(made)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            made.rename(library)
    return library


def _launcher(number: int, kernel: Declaration) -> str:
    """A function with the C ABI that runs every thread of a launch."""
    space = f"source_{number}::"
    kinds = [p.kind if p.kind in ("double", "float", "bool") else space + p.kind for p in kernel.parameters]
    listed = ", ".join(
        f"{kind} {'*' if p.pointer else ''}{p.name}" for kind, p in zip(kinds, kernel.parameters, strict=True)
    )
    names = ", ".join(parameter.name for parameter in kernel.parameters)
    name = f"launch_{number}_{kernel.name}"
    return (
        f'extern "C" int {name}(const unsigned *grid_, const unsigned *block_, {listed}) '
        f"{{ return emulated::launch(grid_, block_, [&] {{ {space}{kernel.name}({names}); }}); }}"
    )
