"""Floor 0: arrays, devices, fused kernels, random bits, errors."""

from shardwise.backend.allocator import keep_pages
from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import (
    AnomalyError,
    ArgumentError,
    AutogradError,
    CollectiveError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
    DataDependentShapeError,
    DeviceError,
    DTypeError,
    ExpectationError,
    IndexRangeError,
    LaunchError,
    LayoutError,
    LinAlgError,
    ModuleError,
    ShapeError,
    ShardwiseError,
    WorldAbortedError,
)
from shardwise.backend.kernels.kernel import FusedUnavailableError, Kernel, plain_formulas
from shardwise.backend.protocol import Backend
from shardwise.backend.random import bernoulli, integers, normal, permutation, uniform
from shardwise.backend.select import BACKENDS, backend_of, get_backend
from shardwise.backend.shape import ShapeArray
from shardwise.backend.special import erf, scatter_add

__all__ = [
    "BACKENDS",
    "AnomalyError",
    "ArgumentError",
    "Array",
    "AutogradError",
    "Backend",
    "CollectiveError",
    "CollectiveMismatchError",
    "CollectiveTimeoutError",
    "DTypeError",
    "DTypeLike",
    "DataDependentShapeError",
    "DeviceError",
    "ExpectationError",
    "FusedUnavailableError",
    "IndexRangeError",
    "Kernel",
    "LaunchError",
    "LayoutError",
    "LinAlgError",
    "ModuleError",
    "Shape",
    "ShapeArray",
    "ShapeError",
    "ShardwiseError",
    "WorldAbortedError",
    "backend_of",
    "bernoulli",
    "erf",
    "get_backend",
    "integers",
    "keep_pages",
    "normal",
    "permutation",
    "plain_formulas",
    "scatter_add",
    "uniform",
]
