"""A strict double of CuPy: arrays, streams, events, memory and NCCL, without a GPU."""

from cupy import cuda
from cupy._array import ndarray
from cupy._creation import __version__, array, asarray, asnumpy, empty, full, ones, zeros
from cupy._module import RawModule

__all__ = [
    "RawModule",
    "__version__",
    "array",
    "asarray",
    "asnumpy",
    "cuda",
    "empty",
    "full",
    "ndarray",
    "ones",
    "zeros",
]
