"""Functions of whole numbers, compiled once per host and kept on disk, that other compiled code can call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numba

from shardwise.backend.kernels.cache import cache_directory
from shardwise.backend.kernels.jit import Store, digest_of
from shardwise.backend.kernels.kernel import FusedUnavailableError

__all__ = ["Compiled"]

_EXACT = {"nogil": True, "error_model": "numpy", "boundscheck": False, "fastmath": False}


class Compiled:
    """A function of 64-bit numbers, and perhaps of one array of them in front, as machine code.

    Parameters
    ----------
    function : callable
    name : str
        Of the file in which it is kept; no other function has it.
    numbers : int
        How many numbers it takes.
    sources : sequence of Path
        The files that it is made of, but for this one.
    array : bool
        Whether it takes an array of int64 in front of them.

    Attributes
    ----------
    call : callable
        Calls it from Python, without the interpreter's lock.

    Raises
    ------
    FusedUnavailableError
        If it cannot be compiled here.
    """

    def __init__(
        self,
        function: Callable[..., int],
        name: str,
        numbers: int,
        sources: Sequence[Path],
        array: bool = False,
    ) -> None:
        signature = (numba.types.int64,) * numbers
        if array:
            signature = (numba.types.Array(numba.types.int64, 1, "C"), *signature)
        dispatcher = numba.njit(**_EXACT)(function)
        folder = cache_directory(_key(tuple(sources)))
        store = None if folder is None else Store(folder, name, plain=True)
        try:
            if store is not None:
                dispatcher._cache = store
            dispatcher.compile(signature)
            result = dispatcher.overloads[signature]
            self._address = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
        except Exception as error:  # numba and LLVM raise many kinds, and all mean the same here
            raise FusedUnavailableError(
                f"numba could not compile {name}: {type(error).__name__}: {error}"
            ) from error
        finally:
            if store is not None:
                store.release()
        dispatcher.disable_compile()
        self.call: Callable[..., int] = dispatcher

    @property
    def address(self) -> int:
        """Where the machine code is, to be called as a C function of its numbers."""
        place: int = self._address
        return place


@functools.cache
def _key(sources: tuple[Path, ...]) -> str:
    return digest_of([Path(__file__), *sources])
