"""CUDA code compiled as C++, once per source and set of options, and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from emulated_cuda.declaration import Declaration, declarations

__all__ = ["Library", "compiled", "find_compiler"]

_HEADER = Path(__file__).with_name("emulation.h")
_ERRORS = {1: "some threads never came to a __syncthreads", 2: "some threads never came to a shuffle"}
_CTYPES = {"int64": ctypes.c_longlong, "uint64": ctypes.c_ulonglong, "double": ctypes.c_double}
_FLAGS = ("-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE")


@functools.cache
def find_compiler() -> str | None:
    """The C++ compiler of this machine, if it has one."""
    return shutil.which(os.environ.get("CXX", "g++"))


class Library:
    """Compiled kernels.

    Parameters
    ----------
    path : Path
    kernels : dict of str to Declaration
    """

    def __init__(self, path: Path, kernels: dict[str, Declaration]) -> None:
        self._library = ctypes.CDLL(str(path))
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
        error = getattr(self._library, f"launch_{name}")(*sizes, *given)
        assert error == 0, f"{name}, blocks {grid} of {block} threads: {_ERRORS[error]}"


@functools.cache
def compiled(source: str, options: tuple[str, ...]) -> Library:
    """Compile `source` with what NVRTC would be told in `options`, or find it in the cache."""
    kernels = declarations(source)
    exact = "--fmad=false" in options
    flags = [
        *_FLAGS,
        *(option for option in options if option.startswith("-D")),
        f"-ffp-contract={'off' if exact else 'fast'}",
    ]
    text = "\n".join([f'#include "{_HEADER}"', source, *map(_launcher, kernels.values())])
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
    return Library(library, kernels)


def _launcher(kernel: Declaration) -> str:
    """A function with the C ABI that runs every thread of a launch."""
    listed = ", ".join(f"{p.kind} {'*' if p.pointer else ''}{p.name}" for p in kernel.parameters)
    names = ", ".join(parameter.name for parameter in kernel.parameters)
    return (
        f'extern "C" int launch_{kernel.name}(const unsigned *grid_, const unsigned *block_, {listed}) '
        f"{{ return emulated::launch(grid_, block_, [&] {{ {kernel.name}({names}); }}); }}"
    )
