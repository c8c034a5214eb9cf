"""DLPack of arrays on CUDA devices: imports CuPy when it is used."""

from __future__ import annotations

from shardwise.backend.array import Array

__all__ = ["from_dlpack"]


def from_dlpack(source: object) -> Array:
    """Return a CuPy array over the memory of `source`, an array on a CUDA device."""
    import cupy

    array: Array = cupy.from_dlpack(source)
    return array
