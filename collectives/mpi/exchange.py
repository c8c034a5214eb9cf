"""What the ranks of MPI say to each other while their world is being made."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # importing it for real starts MPI
    from mpi4py import MPI

__all__ = ["MPIExchange"]


class MPIExchange:
    """Bytes between all ranks, by collectives that can be given up.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    comm : MPI.Intracomm
    complete : callable
        Waits for requests, or raises.
    """

    def __init__(
        self, mpi: ModuleType, comm: MPI.Intracomm, complete: Callable[[list[MPI.Request]], None]
    ) -> None:
        self._byte: MPI.Datatype = mpi.BYTE
        self._comm = comm
        self._complete = complete

    def broadcast(self, data: bytes | None, nbytes: int) -> bytes:
        buffer = bytearray(nbytes if data is None else data)
        self._complete([self._comm.Ibcast([buffer, self._byte], 0)])
        return bytes(buffer)

    def share(self, data: bytes) -> list[bytes]:
        lengths = np.zeros(self._comm.size, np.int64)
        self._complete([self._comm.Iallgather(np.array([len(data)]), lengths)])
        rows = np.zeros((self._comm.size, int(lengths.max())), np.uint8)
        mine = np.zeros(rows.shape[1], np.uint8)
        mine[: len(data)] = np.frombuffer(data, np.uint8)
        self._complete([self._comm.Iallgather([mine, self._byte], [rows, self._byte])])
        return [row[:length].tobytes() for row, length in zip(rows, lengths, strict=True)]
