"""CUDA devices: CuPy arrays. The only file here that imports CuPy, and only when it is used."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ArgumentError, DeviceError
from shardwise.backend.ranking import sorted_indices

__all__ = [
    "CudaBackend", "accumulate", "combine_at", "digamma", "erf", "erfc", "erfinv", "i0", "i0e", "i1", "i1e",
    "is_cuda_array", "is_cuda_type", "lgamma", "polygamma", "scatter_add", "sigmoid", "top_indices",
]  # fmt: skip

_USE_CPU = "or use device 'cpu'"


def is_cuda_array(array: object) -> TypeGuard[Array]:
    """Whether `array` is a CuPy array; nothing is imported, since one cannot exist before CuPy is."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def is_cuda_type(kind: type) -> bool:
    """Whether `kind` is the type of CuPy arrays, or derived from it; nothing is imported."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and issubclass(kind, cupy.ndarray)


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """CuPy arrays in the memory of a GPU; see :class:`~shardwise.backend.protocol.Backend`.

    Parameters
    ----------
    index : int or None, default None
        The device of new arrays; None is the thread's current one.
    """

    index: int | None = None
    name: str = "cuda"

    def available(self) -> tuple[bool, str]:
        try:
            import cupy
        except ImportError as error:
            if getattr(error, "name", None) == "cupy":
                problem = "CuPy is not installed"
            else:
                problem = f"CuPy does not import here ({error})"
            return False, (
                f"{problem}. Install it for your CUDA version (pip install 'shardwise[cuda12]' or "
                f"'shardwise[cuda13]'), {_USE_CPU}."
            )
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            if "InsufficientDriver" in str(error):
                return False, (
                    "the NVIDIA driver is missing, or older than the CUDA version that CuPy was built for "
                    f"({error}). Check that nvidia-smi runs, update the driver or install the CuPy that fits "
                    f"it, {_USE_CPU}."
                )
            if "NoDevice" not in str(error):
                return False, f"CUDA does not start here ({error}). Check that nvidia-smi runs, {_USE_CPU}."
            count = 0
        if count == 0:
            return False, (
                "CuPy and the driver are there, and no CUDA device is visible. Check nvidia-smi and "
                f"CUDA_VISIBLE_DEVICES, {_USE_CPU}."
            )
        if self.index is not None and not 0 <= self.index < count:
            return False, (
                f"there is no CUDA device {self.index}: wanted 0 to {count - 1}. Fewer ranks per host, or "
                "several ranks per device, would fit."
            )
        return True, ""

    def owns(self, array: object) -> bool:
        return is_cuda_array(array)

    def asarray(self, obj: object, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        import cupy

        if copy is False and not is_cuda_array(obj):
            raise ArgumentError("asarray: copy=False, and what is on the host must be copied to the device.")
        with cupy.cuda.Device(self.index):
            array: Array = cupy.array(obj, dtype=dtype, copy=True) if copy else cupy.asarray(obj, dtype=dtype)
        if copy is False and array is not obj:
            raise ArgumentError("asarray: copy=False, and a copy would be needed for this dtype or device.")
        return array

    def to_host(self, array: Array) -> Array:
        import cupy

        host: Array = cupy.asnumpy(array)
        return host

    def empty(self, shape: Shape, dtype: DTypeLike) -> Array:
        import cupy

        with cupy.cuda.Device(self.index):
            array: Array = cupy.empty(shape, dtype)
        return array

    def device_of(self, array: Array) -> str:
        return f"cuda:{array.device.id}"  # type: ignore[attr-defined]  # CuPy's; NumPy's stub has no id

    def device_count(self) -> int:
        if not CudaBackend().available()[0]:
            return 0
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())

    def set_device(self, index: int) -> None:
        usable, reason = CudaBackend(index).available()
        if not usable:
            raise DeviceError(f"cannot use device 'cuda:{index}': {reason}")
        import cupy

        cupy.cuda.Device(index).use()

    def synchronize(self) -> None:
        import cupy

        cupy.cuda.Device(self.index).synchronize()


def erf(x: Array) -> Array:
    """:func:`shardwise.backend.special.erf` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.erf(_floating(x))
    return result


def erfc(x: Array) -> Array:
    """:func:`shardwise.backend.special.erfc` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.erfc(_floating(x))
    return result


def erfinv(x: Array) -> Array:
    """:func:`shardwise.backend.special.erfinv` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.erfinv(_floating(x))
    return result


def sigmoid(x: Array) -> Array:
    """:func:`shardwise.backend.special.sigmoid` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.expit(_floating(x))
    return result


def lgamma(x: Array) -> Array:
    """:func:`shardwise.backend.special.lgamma` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.gammaln(_floating(x))
    return result


def digamma(x: Array) -> Array:
    """:func:`shardwise.backend.special.digamma` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.digamma(_floating(x))
    return result


def i0(x: Array) -> Array:
    """:func:`shardwise.backend.special.i0` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.i0(_floating(x))
    return result


def i0e(x: Array) -> Array:
    """:func:`shardwise.backend.special.i0e` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.i0e(_floating(x))
    return result


def i1(x: Array) -> Array:
    """:func:`shardwise.backend.special.i1` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.i1(_floating(x))
    return result


def i1e(x: Array) -> Array:
    """:func:`shardwise.backend.special.i1e` on the device."""
    import cupyx.scipy.special

    result: Array = cupyx.scipy.special.i1e(_floating(x))
    return result


def polygamma(n: int, x: Array) -> Array:
    """:func:`shardwise.backend.special.polygamma` on the device."""
    import cupyx.scipy.special

    floating = _floating(x)
    result: Array = cupyx.scipy.special.polygamma(n, floating)
    return result.astype(floating.dtype, copy=False)


def _floating(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "iub" else x


def scatter_add(base_shape: Shape, index: Array, updates: Array) -> Array:
    """:func:`shardwise.backend.special.scatter_add` on the device.

    The device adds floating numbers in the order in which its threads arrive, so the last bits may
    differ from run to run; sorting by `index` first would cost more than the sum.
    """
    import cupy
    import cupyx

    with cupy.cuda.Device(updates.device.id):  # type: ignore[attr-defined]  # CuPy's; see above
        result: Array = cupy.zeros(base_shape, updates.dtype)
        if updates.dtype == np.int64:  # which has no atomic sum; that of uint64 has the same bits
            cupyx.scatter_add(result.view(np.uint64), index, updates.view(np.uint64))
        else:
            cupyx.scatter_add(result, index, updates)
    return result


def combine_at(operation: np.ufunc, base: Array, index: Array, updates: Array) -> Array:
    """:func:`shardwise.backend.special.combine_at` on the device; products, on the host."""
    import cupy
    import cupyx

    with cupy.cuda.Device(base.device.id):  # type: ignore[attr-defined]  # CuPy's; see above
        result: Array = base.copy()
        if operation is np.multiply:  # CuPy has no atomic product
            key = tuple(map(cupy.asnumpy, index)) if isinstance(index, tuple) else cupy.asnumpy(index)
            host = cupy.asnumpy(base)
            operation.at(host, key, cupy.asnumpy(updates))
            result[...] = cupy.asarray(host)
        elif operation is np.maximum:
            cupyx.scatter_max(result, index, updates)
        else:
            cupyx.scatter_min(result, index, updates)
    return result


def accumulate(operation: np.ufunc, x: Array, dim: int) -> Array:
    """:func:`shardwise.backend.special.accumulate` on the device, in log2(length) rounds."""
    result, step = x.copy(), 1
    before = (slice(None),) * dim
    while step < x.shape[dim]:
        later = operation(result[(*before, slice(None, -step))], result[(*before, slice(step, None))])
        result[(*before, slice(step, None))] = later
        step *= 2
    return result


def top_indices(x: Array, k: int, dim: int, largest: bool) -> Array:
    """:func:`shardwise.backend.special.top_indices` on the device: of a whole sort, the beginning."""
    return sorted_indices(x, dim, largest)[(slice(None),) * dim + (slice(0, k),)]
