"""Compile fused kernels: options, signatures, one compilation per host, kept on disk.

Left to itself numba compiles for whatever types it meets, which surprises: a read-only or strided input
makes it compile again for seconds. Here each kernel declares its signature as a function of the element
type, is compiled for a dtype when that dtype first comes, and never for anything else.

Imported only by the ``*_cpu`` modules, which are themselves imported on first use.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias, TypeVar

import llvmlite
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.np.numpy_support import from_dtype

from shardwise.backend.array import Array
from shardwise.backend.kernels.cache import cache_directory, compile_lock
from shardwise.backend.kernels.kernel import FusedUnavailableError

__all__ = [
    "POINTWISE",
    "Fused",
    "Store",
    "boolean",
    "cache_key",
    "device",
    "digest_of",
    "float32",
    "float64",
    "fused",
    "int64",
    "read",
    "read_strided",
    "uint16",
    "uint32",
    "write",
    "write_strided",
]

NumbaType: TypeAlias = object
Signature: TypeAlias = Callable[[NumbaType], Sequence[NumbaType]]
F = TypeVar("F", bound=Callable[..., object])

_logger = logging.getLogger(__name__)
_LOCK_SECONDS = 120.0

# NaN and infinity keep their meaning everywhere: 'nnan' and 'ninf' are left out.
_EXACT = {"nogil": True, "error_model": "numpy", "boundscheck": False, "fastmath": False}
POINTWISE = {**_EXACT, "fastmath": {"contract", "nsz"}}  # 'reassoc' would undo constants split in two
_REDUCTION = {**_EXACT, "fastmath": {"reassoc", "contract", "arcp", "nsz"}}  # lets sums vectorise

boolean: NumbaType = numba.types.boolean
float32: NumbaType = numba.types.float32
float64: NumbaType = numba.types.float64
int64: NumbaType = numba.types.int64
uint16: NumbaType = numba.types.uint16
uint32: NumbaType = numba.types.uint32


def read(scalar: NumbaType, ndim: int) -> NumbaType:
    """The type of a C-contiguous array that a kernel only reads (so read-only arrays fit too)."""
    array: NumbaType = numba.types.Array(scalar, ndim, "C", readonly=True)
    return array


def write(scalar: NumbaType, ndim: int) -> NumbaType:
    """The type of a C-contiguous array that a kernel writes."""
    array: NumbaType = numba.types.Array(scalar, ndim, "C")
    return array


def read_strided(scalar: NumbaType, ndim: int) -> NumbaType:
    """The type of an array with any strides that a kernel only reads."""
    array: NumbaType = numba.types.Array(scalar, ndim, "A", readonly=True)
    return array


def write_strided(scalar: NumbaType, ndim: int) -> NumbaType:
    """The type of an array with any strides that a kernel writes."""
    array: NumbaType = numba.types.Array(scalar, ndim, "A")
    return array


def device(exact: bool = False) -> Callable[[F], F]:
    """Mark a function that kernels call; it is compiled into each of them.

    Parameters
    ----------
    exact : bool, default False
        Forbid even fused multiply-adds, so that results agree bit for bit with NumPy's.
    """

    def mark(function: F) -> F:
        compiled: F = numba.njit(**(_EXACT if exact else POINTWISE))(function)
        return compiled

    return mark


def fused(signature: Signature, exact: bool = False) -> Callable[[Callable[..., object]], Fused]:
    """Mark a kernel: a function over contiguous arrays that is compiled when first called.

    Parameters
    ----------
    signature : callable
        Takes the element type of the first argument, and gives the types of all arguments.
    exact : bool, default False
        Forbid reassociation and fused multiply-adds.
    """

    def mark(function: Callable[..., object]) -> Fused:
        return Fused(function, signature, exact)

    return mark


class Fused:
    """A compiled kernel: one machine function per dtype of the first argument, made when first needed.

    Parameters
    ----------
    function : callable
        What to compile.
    signature : callable
        From the element type of the first argument to the types of all.
    exact : bool
        Whether floating-point operations are kept exactly as written.
    """

    def __init__(self, function: Callable[..., object], signature: Signature, exact: bool) -> None:
        functools.update_wrapper(self, function)
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._function = function
        self._signature = signature
        self._exact = exact
        self._compiled: dict[np.dtype[np.generic], Callable[..., object]] = {}

    def __call__(self, first: Array, *rest: object) -> object:
        compiled = self._compiled.get(first.dtype)
        if compiled is None:
            compiled = self.compile(first.dtype)
        return compiled(first, *rest)

    def compile(self, dtype: np.dtype[np.generic]) -> Callable[..., object]:
        """Compile for first arguments of `dtype`, or load what another process compiled.

        Raises
        ------
        FusedUnavailableError
            If numba cannot compile it here.
        """
        dispatcher = numba.njit(**(_EXACT if self._exact else _REDUCTION))(self._function)
        folder = cache_directory(cache_key())
        store = None if folder is None else Store(folder, self.name)
        try:
            if store is not None:
                dispatcher._cache = store
            dispatcher.compile(tuple(self._signature(from_dtype(dtype))))
        except Exception as error:  # numba and LLVM raise many kinds, and all mean the same here
            message = f"numba could not compile {self.name} for {dtype}: {type(error).__name__}: {error}"
            raise FusedUnavailableError(message) from error
        finally:
            if store is not None:
                store.release()
        dispatcher.disable_compile()
        compiled: Callable[..., object] = dispatcher
        self._compiled[dtype] = compiled
        return compiled


class Store:
    """What numba asks of a dispatcher's cache, over one file per kernel and signature.

    numba looks here first, compiles on a miss, and saves the result. A miss takes the host's lock for
    this kernel and looks again, so that of several ranks one compiles and the others find its file.

    Parameters
    ----------
    folder : Path
    name : str
        Of the kernel.
    plain : bool, default False
        That the machine code calls nothing of numba's but its memory, so that what else numba has need not be
        loaded for it: 0.3 s less.
    """

    def __init__(self, folder: Path, name: str, plain: bool = False) -> None:
        self._folder = folder
        self._name = name
        self._plain = plain
        self._lock = ExitStack()

    def load_overload(self, signature: object, target_context: object) -> object:
        found = self._load(signature, target_context)
        if found is None:
            self._lock.enter_context(compile_lock(self._folder / f"{self._name}.lock", _LOCK_SECONDS))
            found = self._load(signature, target_context)
        return found

    def save_overload(self, signature: object, result: CompileResult) -> None:
        try:
            # Written aside and renamed, so that no reader ever sees half a file.
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                file.write(dumps(result._reduce()))
            os.replace(file.name, self._path(signature))
        except OSError as error:
            _logger.debug("compiled kernel %s was not kept on disk: %s", self._name, error)

    def release(self) -> None:
        self._lock.close()

    def _path(self, signature: object) -> Path:
        digest = hashlib.sha256(str(signature).encode()).hexdigest()[:16]
        return self._folder / f"{self._name}-{digest}.bin"

    def _load(self, signature: object, target_context: object) -> object:
        if self._plain:
            rtsys.initialize(cpu_target.target_context)
        else:
            cpu_target.target_context.refresh()
        try:
            payload = pickle.loads(self._path(signature).read_bytes())
            return CompileResult._rebuild(target_context, *payload)
        except FileNotFoundError:
            return None
        except Exception as error:  # a damaged file may fail in any way; compiling again mends it
            _logger.debug("compiled kernel %s could not be loaded: %s", self._name, error)
            return None


@functools.cache
def cache_key() -> str:
    """A digest of all that compiled code depends on.

    The sources of every fused kernel are in it together, since numba does not see that a kernel
    depends on a function which it calls in another file.
    """
    here = Path(__file__)
    # What is compiled in, from files that are no kernels themselves.
    taken = (here.parent.parent / "quantile.py", here.parent / "optimizer" / "optimizer_formula.py")
    return digest_of([*sorted(here.parent.glob("*/*_cpu.py")), here, *taken])


def digest_of(sources: Sequence[Path]) -> str:
    """The digest of these sources, the compiler and the processor."""
    digest = hashlib.sha256()
    versions = (numba.__version__, llvmlite.__version__, np.__version__)
    processor = cpu_target.target_context.codegen().magic_tuple()
    digest.update(repr((versions, processor, sys.version_info[:2])).encode())
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:20]
