"""What `init_rpc` may be told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from shardwise.backend.errors import ArgumentError

__all__ = ["RpcBackendOptions", "check_timeout"]

TIMEOUT = 60.0


@dataclass(slots=True)
class RpcBackendOptions:
    """How an agent works. PyTorch's `TensorPipeRpcBackendOptions`, and what they lack.

    Parameters
    ----------
    num_worker_threads : int
        Threads that run calls of others, not counting those that wait for further calls.
    rpc_timeout : float
        Seconds that a call may take unless it says otherwise; 0 for no limit.
    init_method : str
        Taken and not used: workers find each other through their world.
    device_maps : mapping of str to mapping of int to int
        For a worker's name, on which of its GPUs arrays from each GPU here arrive. One to one. Its answers go
        the way back.
    devices : sequence of int, optional
        For PyTorch's sake: the GPUs are those of `device_maps`.
    max_threads : int
        Threads in all, those that wait included.
    window_calls, window_bytes : int
        What may be under way to one worker before `rpc_async` waits for room. Calls that are made while
        serving one are not counted: their room might never come.
    shared_memory : int
        Bytes of shared memory that may be lent to one worker of this host; 0 to send everything by sockets.

    Raises
    ------
    TypeError
        For a time-out that is no number.
    ArgumentError
        For a value outside its range.
    """

    num_worker_threads: int = 16
    rpc_timeout: float = TIMEOUT
    init_method: str = "env://"
    device_maps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    devices: tuple[int, ...] | None = None
    max_threads: int = 1024
    window_calls: int = 1024
    window_bytes: int = 64 << 20
    shared_memory: int = 4 << 30

    def __post_init__(self) -> None:
        self.rpc_timeout = check_timeout(self.rpc_timeout, "rpc_timeout")
        for name, least in (
            ("num_worker_threads", 1),
            ("max_threads", 2),
            ("window_calls", 1),
            ("window_bytes", 1),
            ("shared_memory", 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ArgumentError(
                    f"RpcBackendOptions: {name}={value!r}; wanted a whole number from {least} up."
                )
        self.device_maps = {name: dict(pairs) for name, pairs in self.device_maps.items()}
        for name, pairs in self.device_maps.items():
            _check_map(name, pairs)

    def set_device_map(self, to: str, device_map: Mapping[int, int]) -> None:
        """Have arrays from these GPUs arrive on those of the worker `to`; adds to what there is."""
        maps = dict(self.device_maps)
        maps[to] = {**maps.get(to, {}), **device_map}
        _check_map(to, maps[to])
        self.device_maps = maps


def check_timeout(timeout: object, name: str) -> float:
    """Give a time-out as a float: seconds, 0 for no limit.

    Raises
    ------
    TypeError
        If it is no number; a timedelta is none.
    ArgumentError
        If it is negative or not finite.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(
            f"{name}={timeout!r} is a {type(timeout).__name__}; wanted a number of seconds, 0 for no limit."
        )
    if timeout < 0 or not math.isfinite(timeout):
        raise ArgumentError(
            f"{name}={timeout!r}; wanted seconds from 0 up, 0 for no limit, or leave it out for the default."
        )
    return float(timeout)


def _check_map(to: str, pairs: Mapping[int, int]) -> None:
    devices = [*pairs.keys(), *pairs.values()]
    if any(isinstance(each, bool) or not isinstance(each, int) or each < 0 for each in devices):
        raise ArgumentError(f"the device map to {to!r} is {dict(pairs)}; wanted indices of GPUs, from 0 up.")
    if len(set(pairs.values())) < len(pairs):
        raise ArgumentError(f"the device map to {to!r} is {dict(pairs)}; it must be one to one.")
