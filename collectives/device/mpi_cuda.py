"""Collectives on device arrays by an MPI that takes addresses of a device, and finding out whether this one
does.

MPI knows nothing of streams: what it is to send must have been computed when it is called. So before each of
its operations the host waits for the stream to come there. MPI only moves; what is reduced is combined on the
device.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.stream_protocol import Device
from shardwise.collectives.chain import Chain
from shardwise.collectives.device.until import Until
from shardwise.collectives.layout import Stretch
from shardwise.collectives.pending import Pending
from shardwise.collectives.reduction import Reduction, combine
from shardwise.collectives.transport import Channel

__all__ = ["MpiCudaChannel", "why_not_mpi_cuda"]

_SMALL = 1 << 16  # bytes below which a reduction gathers everything everywhere
_SECONDS = 60.0

# What mpi4py is given must reach an array of the device, and it must do so in a process that may crash.
_PROBE = """
import sys
import cupy
from mpi4py import MPI
with cupy.cuda.Device(int(sys.argv[1])):
    x = cupy.arange(1 << 20, dtype="f")
    y = cupy.zeros_like(x)
    cupy.cuda.get_current_stream().synchronize()
    MPI.COMM_SELF.Sendrecv([x, MPI.FLOAT], 0, 0, [y, MPI.FLOAT], 0, 0)
    sys.exit(not bool((x == y).all()))
"""
_LAUNCHERS = ("OMPI_COMM", "PMI", "PRTE", "HYDI", "HYDRA", "MPI_LOCAL", "MV2_COMM", "SLURM", "PALS", "FLUX")
_SAID = ("MPICH_GPU_SUPPORT_ENABLED", "MPIR_CVAR_ENABLE_GPU", "MV2_USE_CUDA")

Steps = Generator[tuple[Pending, bool], None, None]


def why_not_mpi_cuda(device: int, environ: Mapping[str, str]) -> str:
    """Say why this MPI is not to be given addresses of a device; nothing if it takes them.

    Parameters
    ----------
    device : int
        Number of this rank's GPU.
    environ : mapping of str to str
    """
    said = _asked()
    if said == 0 or (said is None and not any(environ.get(name) == "1" for name in _SAID)):
        return "MPI does not say that it takes memory of a device"
    alone = {name: value for name, value in environ.items() if not name.startswith(_LAUNCHERS)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE, str(device)],
            env=alone,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"MPI could not be tried on memory of a device ({type(error).__name__})"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        return f"MPI says that it takes memory of a device, and a trial ended with {done.returncode} ({last})"
    return ""


def _asked() -> int | None:
    """Ask the MPI of this process, as several kinds of it can be asked; None if it cannot."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for path in sorted({line.split()[-1] for line in maps.splitlines() if "/libmpi" in line}):
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            return int(library.MPIX_Query_cuda_support())
        except (OSError, AttributeError):
            continue
    return None


class MpiCudaChannel:
    """The collectives of one group on device arrays, moved by MPI.

    Who calls has made `stream` the active one, and keeps the arrays until what comes next on it is done.

    Parameters
    ----------
    by_mpi : Channel
        MPI's own, of this group and for this alone.
    device : Device
    size : int
        Of the group.

    Attributes
    ----------
    stream : Stream
        In whose order the arrays are read and filled.
    """

    def __init__(self, by_mpi: Channel, device: Device, size: int) -> None:
        self.stream = device.stream()
        self._mpi = by_mpi
        self._size = size

    def all_reduce(self, x: Array, out: Array, op: Reduction) -> Pending:
        return Chain(self._all_reduce(x, out, op))

    def all_gather(self, x: Array, out: Array) -> Pending:
        return self._moved(lambda: self._mpi.all_gather(x, out))

    def reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Pending:
        return Chain(self._reduce_scatter(x, out, op))

    def all_to_all(self, x: Array, out: Array) -> Pending:
        return self._moved(lambda: self._mpi.all_to_all(x, out))

    def exchange(
        self,
        x: Array,
        out: Array,
        sent: Sequence[Stretch | None],
        received: Sequence[Stretch | None],
    ) -> Pending:
        return self._moved(lambda: self._mpi.exchange(x, out, sent, received))

    def broadcast(self, x: Array, root: int) -> Pending:
        return self._moved(lambda: self._mpi.broadcast(x, root))

    def reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> Pending:
        return Chain(self._reduce(x, out, op, root))

    def gather(self, x: Array, out: Array | None, root: int) -> Pending:
        return self._moved(lambda: self._mpi.gather(x, out, root))

    def scatter(self, x: Array | None, out: Array, root: int) -> Pending:
        return self._moved(lambda: self._mpi.scatter(x, out, root))

    def barrier(self) -> Pending:
        return self._mpi.barrier()

    def close(self) -> None:
        self._mpi.close()

    def _moved(self, move: Callable[[], Pending]) -> Pending:
        def steps() -> Steps:
            yield Until(self.stream.record()), True
            yield move(), False

        return Chain(steps())

    def _all_reduce(self, x: Array, out: Array, op: Reduction) -> Steps:
        n = self._size
        if x.nbytes * n <= _SMALL:
            parts = np.empty_like(x, shape=(n, x.size))
            yield Until(self.stream.record()), True
            yield self._mpi.all_gather(x, parts), False
            combine([parts[i, ...] for i in range(n)], op, out.reshape(-1))
            return
        share = -(-x.size // n)
        padded = np.zeros_like(x, shape=(n * share,))
        padded[: x.size] = x.reshape(-1)
        mine = np.empty_like(x, shape=(share,))
        for step, _ in self._reduce_scatter(padded.reshape(n, share), mine, op):
            yield step, True
        yield Until(self.stream.record()), True
        yield self._mpi.all_gather(mine, padded.reshape(n, share)), False
        out.reshape(-1)[...] = padded[: x.size]

    def _reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Steps:
        parts = np.empty_like(x, shape=(self._size, out.size))
        yield Until(self.stream.record()), True
        yield self._mpi.all_to_all(x, parts), False
        combine([parts[i, ...] for i in range(self._size)], op, out.reshape(-1))

    def _reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> Steps:
        parts = None if out is None else np.empty_like(x, shape=(self._size, x.size))
        yield Until(self.stream.record()), True
        yield self._mpi.gather(x, parts, root), False
        if out is not None and parts is not None:
            combine([parts[i, ...] for i in range(self._size)], op, out.reshape(-1))
