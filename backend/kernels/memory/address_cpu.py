"""Where the elements of many arrays lie: one compiled call then works on all of them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import fused, int64, read, write

__all__ = ["READABLE", "addresses", "pointer"]

# The first field of a NumPy array behind the header that all Python objects have is the address of its
# elements. Extensions compiled against NumPy read it there, so it cannot move; _is_there looks all the same.
# Asking an array for it (__array_interface__, ctypes) costs more than a small array's whole update.
_HEADER = object.__basicsize__


def addresses(arrays: Sequence[Array]) -> Array:
    """Return the address of the first element of each array, as int64.

    Parameters
    ----------
    arrays : sequence of numpy.ndarray
        The caller keeps them alive while the addresses are used.
    """
    if not READABLE:
        return np.array([array.ctypes.data for array in arrays], np.int64)
    places = np.fromiter(map(id, arrays), np.int64, len(arrays)) + _HEADER
    found = np.empty_like(places)
    _follow(places, found)
    return found


def _pointer(typing: Any, address: Any, like: Any) -> Any:
    """Make a pointer of an address, to elements like those of an array (inside compiled code)."""
    kind = numba.types.CPointer(like.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(kind))

    return kind(address, like), generate


pointer = intrinsic(_pointer)


@fused(lambda integer: (read(int64, 1), write(int64, 1)))
def _follow(places: Array, found: Array) -> None:
    for i in range(places.size):
        found[i] = numba.carray(pointer(places[i], places), 1)[0]


def _is_there() -> bool:
    """Tell whether two arrays, one in the middle of the other, have their address where it is expected."""
    whole = np.zeros(3)
    return all(
        ctypes.c_void_p.from_address(id(array) + _HEADER).value == array.ctypes.data
        for array in (whole, whole[1:])
    )


READABLE = _is_there()
"""Whether addresses are read out of the arrays; if not, each array is asked."""
