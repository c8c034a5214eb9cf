"""Every error that Shardwise raises on purpose, in one tree.

::

    ShardwiseError
    ├── ArgumentError (ValueError)           a value outside what an argument takes
    ├── ShapeError (ValueError)              shapes that do not fit an operation
    │   └── DataDependentShapeError          a shape that only the data could tell
    ├── DTypeError (TypeError)               a dtype that the operation does not take
    ├── IndexRangeError (IndexError)         a label, token id or index outside its range
    ├── LinAlgError (numpy.linalg.LinAlgError, RuntimeError)   a matrix without what was asked of it
    ├── DeviceError (ValueError)             arrays on devices that cannot meet
    ├── AutogradError (RuntimeError)         a gradient that cannot be computed
    │   └── AnomalyError                     the first NaN, under anomaly mode
    ├── ModuleError (ValueError, RuntimeError) a module, parameter or state_dict that does not fit
    ├── LayoutError (ValueError)             meshes, placements, layouts
    ├── ScheduleError (ValueError)           actions, programs and schedules of a pipeline
    ├── CollectiveError (RuntimeError)       a collective that failed
    │   ├── CollectiveMismatchError          ranks disagree on what they run
    │   ├── CollectiveTimeoutError           a wait that ended without an answer
    │   └── WorldAbortedError                another rank failed, so this one was stopped
    ├── RpcError (RuntimeError)              a remote call, future or RRef that failed
    │   ├── RpcTimeoutError (TimeoutError)   a call or wait that took longer than it may
    │   ├── PeerDiedError (ConnectionError)  the worker that was called is gone
    │   ├── RemoteError                      what a remote function raised, where that cannot travel
    │   ├── RRefError                        a remote reference that cannot be used so, or any more
    │   └── FutureStateError (InvalidStateError)   a future asked for, or given, what its state does not allow
    ├── ExpectationError (AssertionError)    what moved is not what a test expects
    └── LaunchError (RuntimeError)           a world that cannot be started

Each also derives from the builtin in brackets, so ``except ValueError`` goes on working.
"""

from __future__ import annotations

from concurrent.futures import InvalidStateError

import numpy as np

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
    "ExpectationError",
    "FutureStateError",
    "IndexRangeError",
    "LaunchError",
    "LayoutError",
    "LinAlgError",
    "ModuleError",
    "PeerDiedError",
    "RRefError",
    "RemoteError",
    "RpcError",
    "RpcTimeoutError",
    "ScheduleError",
    "ShapeError",
    "ShardwiseError",
    "WorldAbortedError",
]


class ShardwiseError(Exception):
    """The root of the tree: catches every error that Shardwise raises on purpose."""


class ArgumentError(ShardwiseError, ValueError):
    """A value outside what the argument takes."""


class ShapeError(ShardwiseError, ValueError):
    """Shapes that do not fit the operation."""


class DataDependentShapeError(ShapeError):
    """A result whose shape depends on data was asked of arrays that hold none."""


class DTypeError(ShardwiseError, TypeError):
    """A dtype that the operation does not take."""


class IndexRangeError(ShardwiseError, IndexError):
    """A label, token id or other index outside the range that it points into."""


class LinAlgError(ShardwiseError, np.linalg.LinAlgError, RuntimeError):
    """A matrix that has no inverse, no Cholesky factor, or whose decomposition did not converge."""


class DeviceError(ShardwiseError, ValueError):
    """A device that is not there, or arrays on devices that cannot meet."""


class AutogradError(ShardwiseError, RuntimeError):
    """A gradient that cannot be computed as asked."""


class AnomalyError(AutogradError):
    """The first NaN, named with its operation and source line (anomaly mode)."""


class ModuleError(ShardwiseError, ValueError, RuntimeError):
    """A module, parameter or state dict that does not fit; a RuntimeError too, as PyTorch raises."""


class LayoutError(ShardwiseError, ValueError):
    """A mesh, placement or layout that does not fit."""


class CollectiveError(ShardwiseError, RuntimeError):
    """A collective, send or receive that failed."""


class CollectiveMismatchError(CollectiveError):
    """Ranks disagree on what they run together."""


class CollectiveTimeoutError(CollectiveError):
    """A wait that ended without an answer."""


class WorldAbortedError(CollectiveError):
    """Another rank failed, so this one was stopped."""


class ExpectationError(ShardwiseError, AssertionError):
    """What a block of code moved is not what `expect` was told."""


class LaunchError(ShardwiseError, RuntimeError):
    """A world that cannot be started as asked."""


class ScheduleError(ShardwiseError, ValueError):
    """An action, program or schedule of a pipeline that does not fit."""


class RpcError(ShardwiseError, RuntimeError):
    """A remote call, future or remote reference that failed."""


class RpcTimeoutError(RpcError, TimeoutError):
    """A remote call, or a wait for one, took longer than it may."""


class PeerDiedError(RpcError, ConnectionError):
    """The worker that was called is gone."""


class RemoteError(RpcError):
    """A remote function raised something that cannot travel; this says what."""


class RRefError(RpcError):
    """A remote reference that cannot be used in this way, here, or any more."""


class FutureStateError(RpcError, InvalidStateError):
    """A future was asked for, or given, what its state does not allow."""
