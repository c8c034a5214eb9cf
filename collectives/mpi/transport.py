"""Transport over MPI: nonblocking operations only, so that every wait can end.

A blocking MPI call can be neither interrupted nor given up, and burns a core. Everything here is issued
nonblocking and tested; on the MPIs measured (MPICH 5, Open MPI 5) that costs no more than the blocking form.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, LaunchError
from shardwise.collectives.blas import allowed_cores, limit_blas, share_of_cores
from shardwise.collectives.control import ControlPlane, connect_plane
from shardwise.collectives.ending.abort import Guard
from shardwise.collectives.ending.news import News
from shardwise.collectives.environment import read_switch
from shardwise.collectives.flight.held import HeldStacks
from shardwise.collectives.flight.inquiry import Inquiry, PlaneInquiry, Tell, ThreadInquiry
from shardwise.collectives.group_tag import GroupTags
from shardwise.collectives.hierarchy import HierarchicalChannel, HostPlan
from shardwise.collectives.mpi.channel import MPIChannel
from shardwise.collectives.mpi.detect import LauncherEnvironment
from shardwise.collectives.mpi.exchange import MPIExchange
from shardwise.collectives.mpi.message import Messages, Watch
from shardwise.collectives.mpi.native import Natives
from shardwise.collectives.mpi.piece import CHUNK, as_bytes, cut
from shardwise.collectives.mpi.request import Issued
from shardwise.collectives.mpi.start import PATIENCE, check_place, start_mpi, unlink_mpich_memory
from shardwise.collectives.progress import Progress
from shardwise.collectives.shm.handover import Handover
from shardwise.collectives.shm.join import join_ring
from shardwise.collectives.tag import user_tag
from shardwise.collectives.thread.hub import Hub
from shardwise.collectives.thread.transport import ThreadsChannel
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
_UNDER_WAY = 10.0  # seconds that a rank that is done gives to what nobody waits for
_JOIN = 30.0  # seconds that a rank that is done waits for those with which it was making a group


def mpi_transport(launched: LauncherEnvironment | None) -> MPITransport:
    """Start MPI and connect all ranks; each rank of the launcher does.

    Raises
    ------
    LaunchError
        If there is no mpi4py or no MPI library, or MPI and the launcher do not belong together.
    """
    place = None if launched is None else launched.local_rank
    transport = MPITransport(start_mpi(launched), place=place)
    if launched is not None:
        check_place(launched, transport.local_rank, transport.local_size, transport.hostname)
    return transport


class MPITransport:
    """All processes of MPI's COMM_WORLD.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``, started.
    chunk : int
        Bytes of the largest message.
    hosts : sequence of str, optional
        The host of each rank, for those that would see how it goes on several; by default where it is.
    place : int, optional
        This rank's number among those of its host, as the launcher counts them: Open MPI's does so by cores,
        not by ranks. By rank where no launcher says it.
    """

    name = "mpi"

    def __init__(
        self,
        mpi: ModuleType,
        chunk: int = CHUNK,
        hosts: Sequence[str] | None = None,
        place: int | None = None,
    ) -> None:
        world: MPI.Intracomm = mpi.COMM_WORLD
        self.rank: int = world.rank
        self.size: int = world.size
        self.hostname = socket.gethostname()
        self._mpi = mpi
        self._chunk = chunk
        self._natives = Natives.of(mpi)
        self._exact = self._natives.exact()
        duplicates = [world.Idup() for _ in range(2)]
        self._complete([request for _, request in duplicates])
        # One for the collectives of the world, one for messages.
        self._everyone, self._messages = (comm for comm, _ in duplicates)
        self.local_rank, self.local_size, cores = _place_on_host(mpi, world, place)
        unlink_mpich_memory()  # all of this host have started MPI
        self._crowded = cores < 1
        if self.local_size > 1:
            limit_blas(cores, os.environ)
        level: int = mpi.Query_thread()
        self.progress = self.phases = Progress() if level >= mpi.THREAD_SERIALIZED else None
        # MPI that takes one thread at a time gets one: all lanes share this lock.
        self._byte: MPI.Datatype = mpi.BYTE
        self._watches: dict[int, Watch] = {}  # of messages with one rank
        self.lock = None if level >= mpi.THREAD_MULTIPLE else threading.Lock()
        self._parallel = level >= mpi.THREAD_MULTIPLE
        self.control = self._connect_plane() if self.size > 1 else None
        self._tags = GroupTags(self.control) if self.control is not None else None
        self._news = News(self.control)
        self._held = HeldStacks()
        known = (self.hostname,) if self.control is None else self.control.hosts
        self.hosts = tuple(hosts or known)
        # Ranks of one host talk through shared memory, unless the user says SHARDWISE_SHM=0.
        allowed = read_switch("SHARDWISE_SHM", os.environ, default=True)
        self._handover = Handover(self.control) if allowed and self.control is not None else None
        self._joining: list[_Connecting] = []
        self._guard = Guard(self)
        self._guard.install()
        self._news.on_death(self._guard.bereaved)

    def connect(self, ranks: tuple[int, ...], label: str = "", by_rank_order: bool = False) -> _Connecting:
        tags = self._tags
        if len(ranks) == 1 or tags is None:
            return _Connecting(lambda: ThreadsChannel(Hub(1), (0,), 0), parallel=False)
        natives = self._exact if by_rank_order else self._natives

        def channel(comm: MPI.Intracomm, members: tuple[int, ...] = ranks) -> MPIChannel:
            return MPIChannel(self._mpi, comm, members, natives, partial(self._watch, ranks), self._chunk)

        whole = not label and ranks == tuple(range(self.size))
        ask = partial(self._news.check, ranks)
        plan = HostPlan.of([self.hosts[rank] for rank in ranks])
        layered = plan.is_worth_it and not by_rank_order
        if self._handover is None or (len(plan.members) > 1 and not layered):
            if whole:
                return _Connecting(lambda: channel(self._everyone), parallel=False)
            return _Connecting(lambda: channel(self._create(tags, ranks, label)), self._parallel, ask)
        handover, name = self._handover, f"{label}{list(ranks)}"

        def on_one_host(by_mpi: MPIChannel, members: tuple[int, ...]) -> Channel:
            return join_ring(f"{name} {members}", members, self.rank, handover, by_mpi, self._crowded, ask)

        def make() -> Channel:
            comm = self._everyone if whole else self._create(tags, ranks, label)
            if not layered:
                return on_one_host(channel(comm), ranks)
            place = ranks.index(self.rank)
            inside, across = plan.inside(place), plan.across(place)
            near, far = (tuple(ranks[i] for i in part) for part in (inside, across))
            near_comm, far_comm = (
                self._create(tags, part, f"{which} {name}") for which, part in (("in", near), ("over", far))
            )
            host = on_one_host(channel(near_comm, near), near)
            return HierarchicalChannel(plan, place, host, channel(far_comm, far), channel(comm))

        joining = _Connecting(make, self._parallel, ask)
        self._joining = [each for each in self._joining if not each.has_ended] + [joining]
        return joining

    def connect_mpi(self, ranks: tuple[int, ...], label: str) -> MPIChannel | None:
        if self._tags is None:
            return None
        comm = self._create(self._tags, ranks, label)
        return MPIChannel(self._mpi, comm, ranks, self._natives, partial(self._watch, ranks), self._chunk)

    def send(self, x: Array, dst: int, tag: int) -> Issued:
        return Issued(
            [self._messages.Isend((piece, self._byte), dst, tag) for piece in self._pieces(x)],
            self._watch_of(dst),
        )

    def recv(self, out: Array, src: int, tag: int) -> Messages:
        def mismatch(sender: int, came: str) -> str:
            return (
                f"rank {self.rank} receives {out.dtype}{list(out.shape)} from rank {sender} with tag "
                f"{user_tag(tag)}, which sent {came}; send and receive the same shape and dtype."
            )

        receives = [
            (self._messages.Irecv((piece, self._byte), src, tag), piece.nbytes, src)
            for piece in self._pieces(out)
        ]
        return Messages(self._mpi, receives, [], self._watch_of(src), mismatch)

    def _pieces(self, x: Array) -> list[Array]:
        """Give what MPI sends as bytes: the array itself, if it is small and of a dtype that has buffers."""
        if x.nbytes <= self._chunk and x.dtype.isbuiltin == 1:
            return [x]
        return cut(as_bytes(x), self._chunk)

    def _watch_of(self, rank: int) -> Watch:
        watch = self._watches.get(rank)
        if watch is None:
            watch = self._watches[rank] = partial(self._watch, (rank,))
        return watch

    def open_inquiry(self, tell: Tell, keep: Callable[[], None]) -> Inquiry:
        if self.control is None:
            return ThreadInquiry({0: (tell, keep)}, 1, dict)
        return PlaneInquiry(self.control, tell, keep)

    def announce_failure(self, when: float) -> None:
        self._news.tell_failure(when)

    def failures(self) -> dict[int, float]:
        return self._news.failures()

    def leave(self) -> None:
        if self._mpi.Is_finalized():
            return
        for joining in self._joining:  # the others need this rank to have come, though it waits for nothing
            joining.join(_JOIN)
        self._finish()
        self._news.leave()
        # Only now: until all have left, they may need the later phases of what is under way here.
        if self.progress is not None:
            self.progress.close()

    def _finish(self) -> None:
        """Give what is under way some time to end, so that nobody who waits for it hears of a rank that left.

        Not longer than there is another rank that may still take part in it.
        """
        until = time.monotonic() + _UNDER_WAY
        while self.progress is not None and not self.progress.is_idle and time.monotonic() < until:
            if self.control is None or len(self.control.liveness.gone()) >= self.size - 1:
                return
            time.sleep(_SHORTEST_NAP)

    def abort(self, code: int) -> None:
        if self._mpi.Is_initialized() and not self._mpi.Is_finalized():
            self._mpi.COMM_WORLD.Abort(code)

    def finalize(self) -> None:
        if not self._mpi.Is_finalized():
            self._mpi.Finalize()

    def close(self) -> None:
        self._guard.remove()
        self._held.close()
        if self.control is not None:
            self.control.close()
        if not self._mpi.Is_finalized():
            for comm in (self._everyone, self._messages):
                if comm != self._mpi.COMM_NULL:
                    comm.Free()

    def _connect_plane(self) -> ControlPlane:
        exchange = MPIExchange(self._mpi, self._everyone, self._complete)
        return connect_plane(exchange, self.rank, self.size, os.environ)

    def _create(self, tags: GroupTags, ranks: tuple[int, ...], label: str) -> MPI.Intracomm:
        world_group = self._everyone.Get_group()
        group = world_group.Incl(list(ranks))
        try:
            return self._everyone.Create_group(group, tags.tag(ranks, label))
        finally:
            group.Free()
            world_group.Free()

    def _watch(self, ranks: tuple[int, ...], waited: float, expected: float) -> None:
        if waited < _SPIN * expected and not self._crowded:
            return
        if waited < _YIELD * expected:
            os.sched_yield()
            return
        self._news.check(ranks)
        time.sleep(min(_LONGEST_NAP, max(_SHORTEST_NAP, _NAP_PART * waited)))

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

    def __init__(
        self, make: Callable[[], Channel], parallel: bool, ask: Callable[[], None] | None = None
    ) -> None:
        self.open = parallel
        self._make = make
        self._ask = ask
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
        if self._ask is not None:
            self._ask()
        self._ended.wait(min(0.01, waited + expected))

    @property
    def has_ended(self) -> bool:
        """Whether the channel is there, or cannot be."""
        return self._ended.is_set()

    def join(self, seconds: float) -> None:
        """Wait for the end, unless the others cannot come any more."""
        until = time.monotonic() + seconds
        while not self._ended.wait(0.1) and time.monotonic() < until:
            try:
                if self._ask is not None:
                    self._ask()
            except CollectiveError:
                return

    def _run(self) -> None:
        try:
            self._made = self._make()
        except Exception as error:
            self._error = error
        self._ended.set()


def _place_on_host(mpi: ModuleType, world: MPI.Intracomm, place: int | None) -> tuple[int, int, float]:
    """Give this rank's place among those of its host, their number, and the cores it has for itself."""
    host = world.Split_type(mpi.COMM_TYPE_SHARED, 0 if place is None else place)
    allowed = host.allgather(allowed_cores())
    found: tuple[int, int, float] = (host.rank, host.size, share_of_cores(host.rank, allowed))
    host.Free()
    return found
