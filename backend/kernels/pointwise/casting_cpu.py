"""Fused casts for NumPy arrays; the formulas are in ``casting.py``.

For float16 most processors have instructions. For others, and for bfloat16, it is done on integers.

References
----------
F. Giesen, "float->half variants", https://gist.github.com/rygorous/2156668.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from shardwise.backend.array import Array
from shardwise.backend.dtypes import bfloat16
from shardwise.backend.kernels.jit import Fused, device, float32, fused, read, uint16, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = [
    "portable_to_float16", "portable_widened_float16", "to_bfloat16", "to_float16", "widened_float16",
]  # fmt: skip

# Without them LLVM would call a function that is not there.
_INSTRUCTIONS = platform.machine() in ("aarch64", "arm64") or bool(
    llvmlite.binding.get_host_cpu_features().get("f16c", False)
)

_SIGN, _INFINITY, _HALF = np.int32(0x8000), np.int32(0x7F800000), np.float32(0.5)

# float16 in the bits of float32: how far exponents are apart, and where normal numbers begin and end.
_REBIAS, _LEAST, _BEYOND = np.int32(112 << 23), np.int32(113 << 23), np.int32(143 << 23)
_HALF_BITS = np.int32(126 << 23)
_EXPONENT16, _MANTISSA16, _SIZE16 = np.int32(0x7C00), np.int32(0x3FF), np.int32(0x7FFF)
_UNIT16 = np.float32(2.0**-24)

_ONE, _PLACES, _JUST_BELOW_HALF = np.uint32(1), np.uint32(16), np.uint32(0x7FFF)
_NAN, _NOTHING = np.uint32(0x7FC0), np.uint32(0)


def to_float16(x: Array) -> Array:
    if x.dtype != np.float32:
        return x.astype(np.float16)
    return _run(_to_float16 if _INSTRUCTIONS else _to_float16_by_integers, x, np.float16)


def to_bfloat16(x: Array) -> Array:
    return _run(_to_bfloat16, x, bfloat16) if x.dtype == np.float32 else x.astype(bfloat16)


def widened_float16(bits: Array) -> Array:
    return _run(_from_float16 if _INSTRUCTIONS else _from_float16_by_integers, bits, np.float32)


def portable_to_float16(x: Array) -> Array:
    """As :func:`to_float16` of float32, where the processor has no instruction for it."""
    return _run(_to_float16_by_integers, x, np.float16)


def portable_widened_float16(bits: Array) -> Array:
    """As :func:`widened_float16`, where the processor has no instruction for it."""
    return _run(_from_float16_by_integers, bits, np.float32)


def _run(loop: Fused, x: Array, dtype: Any) -> Array:
    """Run a loop over the elements in the order in which they lie in memory."""
    order = None
    if not x.flags.c_contiguous:
        order = sorted(range(x.ndim), key=lambda dim: -abs(x.strides[dim]))
        x = x.transpose(order)
    x, out = contiguous(x), np.empty(x.shape, dtype)
    flat = out.reshape(-1)
    loop(x.reshape(-1), flat.view(np.uint16) if flat.itemsize == 2 else flat)
    return out if order is None else out.transpose([order.index(dim) for dim in range(x.ndim)])


@intrinsic  # type: ignore[untyped-decorator]
def _rounded(context: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """The bits of a float32 rounded to float16."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return numba.types.uint16(numba.types.float32), build


@intrinsic  # type: ignore[untyped-decorator]
def _widened(context: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """The float32 of the bits of a float16."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return numba.types.float32(numba.types.uint16), build


@fused(lambda real: (read(real, 1), write(uint16, 1)))
def _to_float16(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = _rounded(x[i])


@fused(lambda word: (read(word, 1), write(float32, 1)))
def _from_float16(bits: Array, out: Array) -> None:
    for i in range(bits.size):
        out[i] = _widened(bits[i])


@device()
def _bits(x: np.float32) -> Any:
    return np.float32(x).view(np.int32)


@fused(lambda real: (read(real, 1), write(uint16, 1)))
def _to_float16_by_integers(x: Array, out: Array) -> None:
    for i in range(x.size):
        size = abs(x[i])
        bits = _bits(size)
        # Ties go to even: what is added is just short of half a unit if the last bit is 0, half if it is 1.
        normal = (bits + np.int32(0xFFF) + ((bits >> np.int32(13)) & np.int32(1)) - _REBIAS) >> np.int32(13)
        # Beside 0.5, the last bit of float32 is that of the smallest float16.
        small = _bits(size + _HALF) - _HALF_BITS
        special = np.int32(0x7E00) if bits > _INFINITY else _EXPONENT16
        result = small if bits < _LEAST else normal
        result = special if bits >= _BEYOND else result
        out[i] = np.uint16(result | ((_bits(x[i]) >> np.int32(16)) & _SIGN))


@fused(lambda word: (read(word, 1), write(float32, 1)))
def _from_float16_by_integers(bits: Array, out: Array) -> None:
    for i in range(bits.size):
        word = np.int32(bits[i])
        exponent, mantissa = word & _EXPONENT16, word & _MANTISSA16
        shifted = np.int32((word & _SIZE16) << np.int32(13))
        normal = shifted + _REBIAS
        special = shifted + _REBIAS + _REBIAS
        small = _bits(np.float32(mantissa) * _UNIT16)
        result = special if exponent == _EXPONENT16 else normal
        result = small if exponent == 0 else result
        out[i] = np.int32(result | np.int32((word & _SIGN) << np.int32(16))).view(np.float32)


@fused(lambda real: (read(real, 1), write(uint16, 1)))
def _to_bfloat16(x: Array, out: Array) -> None:
    for i in range(x.size):
        v = x[i]
        word = np.float32(v).view(np.uint32)
        last = np.uint32((word >> _PLACES) & _ONE)
        rounded = np.uint32(word + _JUST_BELOW_HALF + last) >> _PLACES
        out[i] = np.uint16(rounded | (_NAN if v != v else _NOTHING))
