"""Starting MPI under the launcher that started the process, or saying why that cannot be."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import sys
import time
from types import ModuleType, TracebackType

from shardwise.backend.errors import LaunchError
from shardwise.collectives.mpi.detect import LauncherEnvironment
from shardwise.collectives.mpi.diagnosis import (
    mpi4py_missing,
    mpi_missing,
    wrong_library,
    wrong_place,
    wrong_size,
)

__all__ = ["PATIENCE", "check_place", "start_mpi", "unlink_mpich_memory"]

PATIENCE = 120.0  # seconds for all ranks to come where they make the world

_ALONE = 1.0  # seconds in which rank 0 speaks for all, where no rank knows of another


def start_mpi(launched: LauncherEnvironment | None) -> ModuleType:
    """Give the module ``mpi4py.MPI``, started.

    Raises
    ------
    LaunchError
        If there is no mpi4py or no MPI library, or MPI and the launcher do not belong together.
    """
    mpi = _load(launched)
    if not mpi.Is_initialized():
        message = launched and wrong_library(launched, mpi.Get_library_version())
        if launched is not None and message:
            raise _said_once(LaunchError(message), launched)
        _waiting_for_the_other_ranks_to_start_MPI(mpi)
    rank, size = mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()
    if launched is not None and (launched.rank, launched.size) != (rank, size):
        error = LaunchError(wrong_size(launched, rank, size, mpi.Get_library_version()))
        raise _said_once(error, launched) if size == 1 else error
    return mpi


def check_place(launched: LauncherEnvironment, local_rank: int, local_size: int, hostname: str) -> None:
    """Compare what the launcher said of this rank's place on its host with what MPI says.

    Parameters
    ----------
    launched : LauncherEnvironment
    local_rank, local_size : int
        What MPI says.
    hostname : str

    Raises
    ------
    LaunchError
        If they disagree, so that ranks would take each other's cores and devices.
    """
    said = (launched.local_rank, launched.local_size)
    if said[0] not in (None, local_rank) or said[1] not in (None, local_size):
        raise LaunchError(wrong_place(launched, local_rank, local_size, hostname))


def unlink_mpich_memory() -> None:
    """Take the names of MPICH's shared memory away, once all ranks of this host have it.

    MPICH does so itself when it ends well. A job that is killed would leave some MiB in /dev/shm each time,
    until that is full.
    """
    with contextlib.suppress(OSError):  # there is no /proc
        with open("/proc/self/maps") as file:
            paths = set(re.findall(r" (/dev/shm/mpich_shm_\w+)$", file.read(), re.MULTILINE))
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # another rank was faster
                os.unlink(path)


def _load(launched: LauncherEnvironment | None) -> ModuleType:
    """Import mpi4py.MPI without starting MPI, which may abort the process when the launcher is another's."""
    try:
        import mpi4py

        if mpi4py.rc.finalize is None:
            mpi4py.rc.finalize = True  # at exit, as it would have done by itself
        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except ModuleNotFoundError as error:
        if error.name != "mpi4py":
            raise
        raise LaunchError(mpi4py_missing(launched)) from error
    except (ImportError, RuntimeError) as error:
        raise LaunchError(mpi_missing(launched, str(error))) from error
    return MPI


def _waiting_for_the_other_ranks_to_start_MPI(mpi: ModuleType) -> None:
    # MPI_Init holds the interpreter, so that only faulthandler's own thread can end a start without others.
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=2)
    try:
        mpi.Init_thread()
    finally:
        faulthandler.cancel_dump_traceback_later()


def _said_once(error: LaunchError, launched: LauncherEnvironment) -> LaunchError:
    """Let rank 0's traceback stand for all, where the ranks do not know of each other and all raise this."""
    if launched.rank == 0:
        return error
    before = sys.excepthook

    def hook(kind: type[BaseException], raised: BaseException, trace: TracebackType | None) -> None:
        if raised is error:
            time.sleep(_ALONE)
        else:
            before(kind, raised, trace)

    sys.excepthook = hook
    return error
