"""The tree of errors, under its public name."""

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
    IndexRangeError,
    LaunchError,
    LayoutError,
    ModuleError,
    ShapeError,
    ShardwiseError,
    WorldAbortedError,
)

__all__ = [
    "AnomalyError",
    "ArgumentError",
    "AutogradError",
    "CollectiveError",
    "CollectiveMismatchError",
    "CollectiveTimeoutError",
    "DTypeError",
    "DataDependentShapeError",
    "DeviceError",
    "IndexRangeError",
    "LaunchError",
    "LayoutError",
    "ModuleError",
    "ShapeError",
    "ShardwiseError",
    "WorldAbortedError",
]
