"""placeholder"""

from __future__ import annotations

from shardwise.backend.array import Array


def is_cuda_array(x: object) -> bool:
    return type(x).__module__.startswith("cupy")


def erf(x: Array) -> Array:
    raise NotImplementedError


scatter_add = erf
