"""The plan of the house as data: which folder is on which floor, and what may be brought in where."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Imports go only down; folders that share a floor do not import each other.
FLOORS = {
    "backend": 0,
    "tensor": 1,
    "collectives": 2,
    "mesh": 3,
    "nn": 3,
    "optim": 3,
    "dtensor": 4,
    "parallel": 5,
    "pipelining": 5,
    "checkpoint": 6,
    "rpc": 7,
    "launch": 8,
}
# The modules of src/shardwise itself: they may import every folder, and no folder imports them.
ROOF = "roof"
# But for its one plain value: the roof is loaded before any of its folders, so this is always there.
ROOF_VALUES = ("__version__",)

# Folders of scripts: not installed, so they import the package as a user does.
SCRIPTS = ("benchmarks", "examples", "tests")

_NUMBA_FILES = ("backend/*_cpu.py", "backend/*jit.py", "collectives/shm/*_cpu.py")
_CUPY_FILES = ("backend/cuda.py", "backend/*_cuda.py", "collectives/device/nccl.py")
_MPI_FILES = ("collectives/mpi/*.py", "launch/*.py")

# Every third-party name that the package may import, with the files that may do it.
THIRD_PARTY = {
    "numpy": ("*",),
    "ml_dtypes": ("*",),
    "numba": _NUMBA_FILES,
    "llvmlite": _NUMBA_FILES,
    "cupy": _CUPY_FILES,
    "cupyx": _CUPY_FILES,
    "cupy_backends": _CUPY_FILES,
    "mpi4py": _MPI_FILES,
    "threadpoolctl": ("backend/*.py", "collectives/*.py", "launch/*.py"),
    "safetensors": ("checkpoint/*.py",),
    "tqdm": ("launch/*.py",),
    "matplotlib": ("pipelining/drawing.py",),
}
# Slow to import, or starting something: these may be imported inside functions, and so may
# the files that exist to import them.
LATE = ("numba", "llvmlite", "cupy", "cupyx", "cupy_backends", "mpi4py", "matplotlib")
LATE_FILES = (*_NUMBA_FILES, *_CUPY_FILES, "collectives/mpi/*.py")
# Importing mpi4py.MPI starts MPI, so no module may do it while it is itself imported.
ONLY_IN_FUNCTIONS = ("mpi4py",)
# Files that load a module whose name is computed: the lazy names of the roof (PEP 562), the fused
# kernels on first use, and functions that come by reference from another process.
COMPUTED_IMPORTS = ("src/shardwise/__init__.py", "backend/kernels/kernel.py", "launch/*.py")

FORBIDDEN_FILES = ("util", "utils", "helper", "helpers", "common", "misc", "base")
PRINTING = ("launch/*.py", "examples/*.py", "benchmarks/*.py", "tests/*.py")


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a path (relative to the root, with ``/``) fits one of the patterns."""
    return any(fnmatch(path, pattern) for pattern in patterns)
