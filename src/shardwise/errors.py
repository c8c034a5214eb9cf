"""The tree of errors, under its public name."""

from shardwise.backend.errors import (
    AnomalyError,
    AutogradError,
    CollectiveError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
    DataDependentShapeError,
    DeviceError,
    DTypeError,
    LaunchError,
    LayoutError,
    ModuleError,
    ShapeError,
    ShardwiseError,
    WorldAbortedError,
)

__all__ = [
    "AnomalyError",
    "AutogradError",
    "CollectiveError",
    "CollectiveMismatchError",
    "CollectiveTimeoutError",
    "DTypeError",
    "DataDependentShapeError",
    "DeviceError",
    "LaunchError",
    "LayoutError",
    "ModuleError",
    "ShapeError",
    "ShardwiseError",
    "WorldAbortedError",
]
