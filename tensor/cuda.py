"""CUDA devices, by PyTorch's names: ``sw.cuda.is_available()``.

Nothing here needs a GPU; where there is none, the answers say so.
"""

from __future__ import annotations

from shardwise.backend.cuda import CudaBackend
from shardwise.backend.device import Device
from shardwise.backend.select import get_backend
from shardwise.tensor.random import manual_seed

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all", "set_device", "synchronize"]


def is_available() -> bool:
    """Tell whether tensors can be made on a CUDA device here."""
    return CudaBackend().available()[0]


def device_count() -> int:
    """Return how many CUDA devices there are; 0 where they cannot be used."""
    return CudaBackend().device_count()


def set_device(device: str | int) -> None:
    """Make new tensors of this thread on a CUDA device, given by its number or name.

    Raises
    ------
    DeviceError
        There is no such device.
    """
    place = Device(device)
    get_backend(place.type).set_device(place.index or 0)


def synchronize(device: str | int | None = None) -> None:
    """Wait until a CUDA device, the current one if none is given, has done all that it was given.

    Raises
    ------
    DeviceError
        There is no such device.
    """
    get_backend("cuda" if device is None else Device(device)).synchronize()


def manual_seed_all(seed: int) -> None:
    """Start all random streams again: those of the CPU and of GPUs are the same."""
    manual_seed(seed)
