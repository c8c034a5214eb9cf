"""A device that is emulated on the CPU, for the tests of CUDA kernels."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from emulated_cuda import install, launches
from shardwise.backend.kernels.device.launch_cuda import device_table
from shardwise.backend.kernels.device_table import LAUNCHERS
from shardwise.backend.kernels.optimizer.optimizer import UPDATES, update_on_device
from shardwise.backend.kernels.optimizer.optimizer_cuda import update_launcher
from shardwise.backend.kernels.table import KERNELS


@pytest.fixture
def emulated_device() -> Iterator[ModuleType]:
    """CuPy's double in the place of CuPy; nothing that was compiled or kept for one outlives it."""
    _forget()
    launches.clear()
    with install() as cupy:
        yield cupy
    _forget()


def _forget() -> None:
    for launch in LAUNCHERS:
        launch.forget()
    device_table.forget()
    for kernel in KERNELS:
        if kernel.on_device is not None:
            kernel.on_device.forget()
    update_on_device.forget()
    for update in UPDATES:
        update_launcher(update.formula, len(update.arrays)).forget()
