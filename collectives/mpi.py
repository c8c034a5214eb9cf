"""Transport over MPI: nonblocking operations only, so that every wait can end.

A blocking MPI call can be neither interrupted nor given up, and burns a core. Everything here is issued
nonblocking and tested; on the MPIs measured (MPICH 5, Open MPI 5) that costs no more than the blocking form.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, CollectiveMismatchError, LaunchError, WorldAbortedError
from shardwise.collectives.abort import Guard
from shardwise.collectives.blas import allowed_cores, limit_blas, share_of_cores
from shardwise.collectives.detect import LauncherEnvironment
from shardwise.collectives.mpi_channel import CHUNK, Issued, MPIChannel, Watch, as_bytes, cut
from shardwise.collectives.mpi_native import Natives
from shardwise.collectives.mpi_start import PATIENCE, start_mpi
from shardwise.collectives.progress import Progress
from shardwise.collectives.tag import user_tag
from shardwise.collectives.threads import Hub, ThreadsChannel
from shardwise.collectives.transport import Channel

if TYPE_CHECKING:  # importing it for real starts MPI
    from mpi4py import MPI

__all__ = ["MPITransport", "mpi_transport"]

# A waiting rank spins for a few times the expected duration, if it has a core for itself; then it lets others
# run; then it sleeps for a small part of what it has waited.
_SPIN = 4.0
_YIELD = 12.0
_SHORTEST_NAP, _LONGEST_NAP = 50e-6, 1e-3
_NAP_PART = 0.05

_NEWS_AFTER = 0.5  # seconds of waiting before a rank asks whether the others are still there
_LAST_WORDS = 2.0  # seconds in which what a rank sent before it left must arrive
_LEAVE_NEWS = 30.0  # seconds that a rank that is done waits for the others before it says so
_MERCY = 10.0  # seconds in which a failed rank ends the job

_FAILED, _LEFT = 1.0, 2.0


def mpi_transport(launched: LauncherEnvironment | None) -> MPITransport:
    """Start MPI and connect all ranks; each rank of the launcher does.

    Raises
    ------
    LaunchError
        If there is no mpi4py or no MPI library, or MPI and the launcher do not belong together.
    """
    return MPITransport(start_mpi(launched))


class MPITransport:
    """All processes of MPI's COMM_WORLD.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``, started.
    chunk : int
        Bytes of the largest message.
    """

    name = "mpi"

    def __init__(self, mpi: ModuleType, chunk: int = CHUNK) -> None:
        world: MPI.Intracomm = mpi.COMM_WORLD
        self.rank: int = world.rank
        self.size: int = world.size
        self.hostname = socket.gethostname()
        self._mpi = mpi
        self._chunk = chunk
        self._natives = Natives.of(mpi)
        duplicates = [world.Idup() for _ in range(3)]
        self._complete([request for _, request in duplicates])
        # One for the collectives of the world, one for messages, one for news of ranks that fail or leave.
        self._everyone, self._messages, self._news = (comm for comm, _ in duplicates)
        self.local_rank, self.local_size, cores = _place_on_host(mpi, world)
        self._crowded = cores < 1
        if self.local_size > 1:
            limit_blas(cores, os.environ)
        level: int = mpi.Query_thread()
        self.progress = Progress() if level >= mpi.THREAD_SERIALIZED else None
        # MPI that takes one thread at a time gets one: all lanes share this lock.
        self.lock = None if level >= mpi.THREAD_MULTIPLE else threading.Lock()
        self._parallel = level >= mpi.THREAD_MULTIPLE
        self._hearing = self.lock or threading.Lock()
        self._heard: dict[int, tuple[float, float, float]] = {}  # rank: what, when it was, when it was heard
        self._announcements: list[tuple[Array, MPI.Request]] = []
        self._asked = 0.0
        self._guard = Guard(self)
        self._guard.install()

    def connect(self, ranks: tuple[int, ...]) -> _Connecting:
        if len(ranks) == 1:
            return _Connecting(lambda: ThreadsChannel(Hub(1), (0,), 0), parallel=False)
        watch = partial(self._watch, ranks)
        if ranks == tuple(range(self.size)):
            return _Connecting(lambda: self._channel(self._everyone, watch), parallel=False)
        return _Connecting(lambda: self._channel(self._create(ranks), watch), self._parallel)

    def send(self, x: Array, dst: int, tag: int) -> Issued:
        requests = [
            self._messages.Isend([piece, self._mpi.BYTE], dst, tag) for piece in cut(as_bytes(x), self._chunk)
        ]
        return Issued(requests, partial(self._watch, (dst,)))

    def recv(self, out: Array, src: int, tag: int) -> _Receiving:
        requests = [
            (self._messages.Irecv([piece, self._mpi.BYTE], src, tag), piece.size)
            for piece in cut(as_bytes(out), self._chunk)
        ]
        what = (
            f"rank {self.rank} receives {out.dtype}{list(out.shape)} from rank {src} with tag {user_tag(tag)}"
        )
        return _Receiving(self._mpi, requests, partial(self._watch, (src,)), what)

    def announce_failure(self, when: float) -> None:
        self._announce(_FAILED, when)

    def failures(self) -> dict[int, float]:
        self._listen()
        return {rank: when for rank, (what, when, _) in self._heard.items() if what == _FAILED}

    def leave(self) -> None:
        if self._mpi.Is_finalized():
            return
        self._announce(_LEFT, time.time())
        nap, tell = _SHORTEST_NAP, time.monotonic() + _LEAVE_NEWS
        while True:
            self._listen()
            busy = [rank for rank in range(self.size) if rank != self.rank and rank not in self._heard]
            if not busy:
                break
            if time.monotonic() > tell:
                tell += 10 * _LEAVE_NEWS
                if all(rank in busy for rank in range(self.rank)):  # of those that wait, one says so
                    sys.stderr.write(
                        f"shardwise: rank {self.rank} is done and waits for ranks {busy} to end\n"
                    )
            time.sleep(nap)
            nap = min(10 * _LONGEST_NAP, 1.2 * nap)
        self._complete([request for _, request in self._announcements])
        # Only now: until all have left, they may need the later phases of what is under way here.
        if self.progress is not None:
            self.progress.close()

    def abort(self, code: int) -> None:
        if self._mpi.Is_initialized() and not self._mpi.Is_finalized():
            self._mpi.COMM_WORLD.Abort(code)

    def close(self) -> None:
        self._guard.remove()
        if not self._mpi.Is_finalized():
            for comm in (self._everyone, self._messages, self._news):
                if comm != self._mpi.COMM_NULL:
                    comm.Free()

    def _channel(self, comm: MPI.Intracomm, watch: Watch) -> MPIChannel:
        return MPIChannel(self._mpi, comm, self._natives, watch, self._chunk)

    def _create(self, ranks: tuple[int, ...]) -> MPI.Intracomm:
        world_group = self._everyone.Get_group()
        group = world_group.Incl(list(ranks))
        try:
            return self._everyone.Create_group(group, zlib.crc32(repr(ranks).encode()) & 0x7FFF)
        finally:
            group.Free()
            world_group.Free()

    def _watch(self, ranks: tuple[int, ...], waited: float, expected: float) -> None:
        if waited < _SPIN * expected and not self._crowded:
            return
        if waited < _YIELD * expected:
            os.sched_yield()
            return
        if waited > _NEWS_AFTER:
            self._ask_for(ranks)
        time.sleep(min(_LONGEST_NAP, max(_SHORTEST_NAP, _NAP_PART * waited)))

    def _ask_for(self, ranks: tuple[int, ...]) -> None:
        """Raise if this rank waits in vain: one of `ranks` has left, or one of all has failed."""
        now = time.monotonic()
        if now - self._asked < _NEWS_AFTER / 2:
            return
        self._asked = now
        self._listen()
        for rank, (what, _, heard) in self._heard.items():
            # A rank that failed ends this one too, so that only its own traceback is printed.
            if what == _FAILED and now - heard > _MERCY:
                raise WorldAbortedError(f"rank {self.rank} stopped waiting: rank {rank} has failed.")
            if what == _LEFT and rank in ranks and now - heard > _LAST_WORDS:
                raise CollectiveError(
                    f"rank {self.rank} waits for rank {rank}, which has left the world (it ended, or called "
                    f"shutdown) {now - heard:.0f} s ago; every rank must take part, in the same order."
                )

    def _announce(self, what: float, when: float) -> None:
        news = np.array([what, when])
        with self._hearing:
            self._announcements += [
                (news, self._news.Isend([news, self._mpi.DOUBLE], rank))
                for rank in range(self.size)
                if rank != self.rank
            ]

    def _listen(self) -> None:
        """Take in what other ranks have announced."""
        news = np.empty(2)
        status = self._mpi.Status()
        with self._hearing:
            while self._news.Iprobe(status=status):
                self._news.Recv([news, self._mpi.DOUBLE], status.Get_source(), status.Get_tag())
                what, when = news.tolist()
                self._heard[status.Get_source()] = (what, when, time.monotonic())

    def _complete(self, requests: list[MPI.Request]) -> None:
        began, nap = time.monotonic(), _SHORTEST_NAP
        while not self._mpi.Request.Testall(requests):
            if time.monotonic() - began > PATIENCE:
                raise LaunchError(
                    f"rank {self.rank} of {self.size}: not all ranks have come within {PATIENCE:g} s to make "
                    f"or to end the world; every rank must use shardwise.collectives, or call init()."
                )
            time.sleep(nap)
            nap = min(_LONGEST_NAP, 1.2 * nap)


class _Connecting:
    """Pending: the making of a channel, by a thread where MPI allows, since MPI has no nonblocking form."""

    def __init__(self, make: Callable[[], Channel], parallel: bool) -> None:
        self.open = parallel
        self._make = make
        self._made: Channel | None = None
        self._error: Exception | None = None
        self._ended = threading.Event()
        if parallel:
            threading.Thread(target=self._run, name="shardwise-connect", daemon=True).start()
        else:
            self._run()

    @property
    def channel(self) -> Channel:
        if self._made is None:
            raise CollectiveError(f"the channel was not made: {self._error}")
        return self._made

    def test(self) -> bool:
        if not self._ended.is_set():
            return False
        self.open = False
        if self._error is not None:
            raise self._error
        return True

    def pause(self, waited: float, expected: float) -> None:
        self._ended.wait(min(0.01, waited + expected))

    def _run(self) -> None:
        try:
            self._made = self._make()
        except Exception as error:
            self._error = error
        self._ended.set()


class _Receiving:
    """Pending: a message of known size, perhaps in several pieces."""

    open = False

    def __init__(
        self, mpi: ModuleType, requests: list[tuple[MPI.Request, int]], watch: Watch, what: str
    ) -> None:
        self._mpi = mpi
        self._requests = requests
        self._watch = watch
        self._what = what
        self._status: MPI.Status = mpi.Status()

    def test(self) -> bool:
        while self._requests:
            request, wanted = self._requests[-1]
            try:
                if not request.Test(self._status):
                    return False
            except self._mpi.Exception as error:
                if error.Get_error_class() == self._mpi.ERR_TRUNCATE:
                    raise self._mismatch("a longer message") from error
                raise
            got = self._status.Get_count(self._mpi.BYTE)
            if got != wanted:
                raise self._mismatch(f"{got} bytes in place of {wanted}")
            self._requests.pop()
        return True

    def pause(self, waited: float, expected: float) -> None:
        self._watch(waited, expected)

    def _mismatch(self, got: str) -> CollectiveMismatchError:
        return CollectiveMismatchError(
            f"{self._what}, which sent {got}; send and receive the same shape and dtype."
        )


def _place_on_host(mpi: ModuleType, world: MPI.Intracomm) -> tuple[int, int, float]:
    """Give this rank's place among those of its host, their number, and the cores it has for itself."""
    host = world.Split_type(mpi.COMM_TYPE_SHARED)
    allowed = host.allgather(allowed_cores())
    place: tuple[int, int, float] = (host.rank, host.size, share_of_cores(host.rank, allowed))
    host.Free()
    return place
