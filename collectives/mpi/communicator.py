"""Communicators of mpi4py, as ranks of the world."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shardwise.backend.errors import CollectiveError
from shardwise.collectives.context import get_world

if TYPE_CHECKING:  # importing it for real starts MPI
    from mpi4py import MPI

__all__ = ["Communicator", "communicator_ranks"]


class Communicator(Protocol):
    """A communicator of mpi4py: ``MPI.COMM_WORLD``, or what its ``Split`` or ``Create_cart`` gives."""

    def Get_size(self) -> int:
        """Return the number of its ranks."""

    def Get_rank(self) -> int:
        """Return this process's rank in it."""


def communicator_ranks(comm: Communicator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Give the global ranks of the processes of a communicator.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Any that connects processes of this world; the caller is one of them.

    Returns
    -------
    array of int64, shape (size,), or the shape of the grid for a Cartesian communicator
        In the order of the communicator. ``get_group(ranks.ravel())`` is the group of its processes.

    Raises
    ------
    CollectiveError
        If it is no communicator within one group, is null or freed, reaches processes that are not in the
        world, or the ranks of this world are not processes.

    Notes
    -----
    Does not communicate: MPI knows the group of each communicator. The communicator itself is not kept, and
    may be freed.
    """
    world = get_world()
    where = f"communicator_ranks on rank {world.rank}"
    mpi = sys.modules.get("mpi4py.MPI")  # whoever has a communicator has imported it
    if mpi is None or not isinstance(comm, mpi.Comm):
        raise CollectiveError(f"{where}: comm is {type(comm).__name__}, wanted a communicator of mpi4py.")
    if comm == mpi.COMM_NULL:
        raise CollectiveError(
            f"{where}: the communicator is null: it was freed, or this rank is not in it. Only the members "
            f"of a communicator know its ranks; others may use DeviceMesh(device_type, ranks)."
        )
    if not isinstance(comm, mpi.Intracomm):
        raise CollectiveError(
            f"{where}: the communicator is an {type(comm).__name__}, between two groups; Merge() makes one "
            f"of both."
        )
    if world.transport.name != "mpi" and (world.size, comm.size) != (1, 1):
        raise CollectiveError(
            f"{where}: the world of {world.size} goes over {world.transport.name!r}, so its ranks are not "
            f"the {comm.size} processes of the communicator; start it with mpirun or `shardwise run`."
        )
    # A process that is alone is rank 0, whatever MPI calls it.
    ranks = _in_the_world(mpi, comm) if world.transport.name == "mpi" else [0]
    if mpi.UNDEFINED in ranks:
        outside = [place for place, rank in enumerate(ranks) if rank == mpi.UNDEFINED]
        raise CollectiveError(
            f"{where}: ranks {outside} of the communicator of {comm.size} are not in the world of "
            f"{world.size}; processes that were spawned have a world of their own."
        )
    array = np.array(ranks, np.int64)
    if isinstance(comm, mpi.Cartcomm) and comm.dims:
        array = array.reshape(comm.dims)  # MPI numbers the ranks of a grid row by row
    return array


def _in_the_world(mpi: Any, comm: MPI.Intracomm) -> list[int]:
    group, everyone = comm.Get_group(), mpi.COMM_WORLD.Get_group()
    try:
        ranks: list[int] = mpi.Group.Translate_ranks(group, None, everyone)
        return list(ranks)
    finally:
        group.Free()
        everyone.Free()
