"""The agent of a real worker: sockets to the others, one thread that serves them, a pool that runs calls."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Protocol, runtime_checkable

from shardwise.backend.errors import PeerDiedError, RpcError, RpcTimeoutError
from shardwise.collectives.control.loop import Loop
from shardwise.rpc.agent import Companion, Handler, Incoming, Outgoing, Place, Reducer
from shardwise.rpc.current import entered_agent, own_context
from shardwise.rpc.future import Future, hosted_thread
from shardwise.rpc.pickling import Parcel, Reducers, pack, unpack
from shardwise.rpc.serving.chain import DEEPEST, Link, current_link
from shardwise.rpc.serving.failure import Failure, rebuild_failure
from shardwise.rpc.serving.options import RpcBackendOptions
from shardwise.rpc.serving.pool import IoThread, Pool
from shardwise.rpc.serving.reception import Reception, arrive, label_of
from shardwise.rpc.serving.stats import Stats
from shardwise.rpc.serving.underway import Call, Underway, Window
from shardwise.rpc.wire.address import Address
from shardwise.rpc.wire.frame import Frame, Type
from shardwise.rpc.wire.links import Links
from shardwise.rpc.wire.reader import aligned
from shardwise.rpc.wire.sharing import Sharing
from shardwise.rpc.worker_info import WorkerInfo

__all__ = ["SocketAgent"]

_log = logging.getLogger(__name__)

_OVERHEAD = 256  # bytes that even an empty call counts for in a window
_LAST_WORDS = 0.02  # seconds in which what a worker had said before it died is still read
_FAREWELL = 2.0  # in a shutdown, in which whoever was told first that all may go hangs up first
_SHIFT = 48  # bits of a counter, below those of the worker


@runtime_checkable
class Described(Protocol):
    """A part of an agent that tells of itself."""

    def debug_info(self) -> dict[str, int]:
        """Give what it has at the moment, as numbers."""


_EMPTY = ("autograd.grads", "rref.create")  # whose answers hold nothing, so that the io thread may read them


class SocketAgent:
    """One worker's end of an RPC group; see `Agent`.

    Parameters
    ----------
    me : int
        Id of this worker.
    workers : sequence of WorkerInfo
        By id.
    ranks : sequence of int
        Their global ranks.
    addresses : sequence of Address
    key : bytes
        Known to the workers of this group alone.
    sockets : sequence of socket.socket
        They listen at this worker's address; the agent owns them.
    options : RpcBackendOptions
    """

    def __init__(
        self,
        me: int,
        workers: Sequence[WorkerInfo],
        ranks: Sequence[int],
        addresses: Sequence[Address],
        key: bytes,
        sockets: Sequence[socket.socket],
        options: RpcBackendOptions,
    ) -> None:
        self.parts: dict[type, Any] = {}
        self.options = options
        self.rpc_timeout = options.rpc_timeout
        self.ranks = tuple(ranks)
        self.addresses = tuple(addresses)
        self._workers = tuple(workers)
        self._me = self._workers[me]
        self._id = me
        self._reducers = Reducers()
        self._companions: list[Companion] = []
        self._deaths: list[Callable[[int, Exception], None]] = []
        self._partings: list[Callable[[float | None], None]] = []
        self._dead: dict[int, str] = {}
        self._leaving = False  # the others may hang up soon, and not have died
        self._closing = False
        self._lock = threading.Lock()
        self._chains = 0
        self._stats = Stats()
        self._loop = Loop("shardwise-rpc-io")
        with entered_agent(self):
            self._pool = Pool("shardwise-rpc", options.num_worker_threads, options.max_threads)
        self._windows = [Window(options.window_calls, options.window_bytes) for _ in workers]
        self._underway = Underway(self._wake, self._windows.__getitem__)
        where = f"{self._me.name} (rank {ranks[me]}, host {addresses[me].hostname}, pid {addresses[me].pid})"
        self._reception = Reception(
            self, self._loop, self._pool, self._reducers, self._companions, self._stats, where, self._ship
        )
        self._links = Links(self._loop, me, addresses, key, sockets, self)
        self._sharing = Sharing(me, addresses, options.shared_memory, self._tell, self._loop.call_soon)
        self._hosted = ExitStack()
        self._loop.call_soon(self._enter_io)
        self._loop.start()
        for_fork = weakref.ref(self)
        os.register_at_fork(
            before=partial(_at_fork, for_fork, SocketAgent.hold),
            after_in_parent=partial(_at_fork, for_fork, SocketAgent.let_go),
            after_in_child=partial(_at_fork, for_fork, SocketAgent.abandon),
        )

    def __repr__(self) -> str:
        return f"SocketAgent({self._me.name}, worker {self._id} of {len(self._workers)})"

    @property
    def me(self) -> WorkerInfo:
        return self._me

    @property
    def workers(self) -> Sequence[WorkerInfo]:
        return self._workers

    def send(
        self, to: int, kind: str, payload: object, timeout: float | None = None, *, blocking: bool = True
    ) -> Future[Any]:
        if self._closing:
            raise RpcError(
                f"RPC has not been initialized: {self._me.name} was shut down; call rpc.init_rpc again."
            )
        limit = self.rpc_timeout if timeout is None else timeout
        link = self._next_link(kind)
        outgoing = Outgoing(self, to, kind)
        parcel = pack(payload, outgoing, self._reducers, self._companions)
        future: Future[Any] = Future(self._pool.submit)
        label = label_of(kind, payload)
        waited, counts = 0.0, 0
        if blocking and link.depth == 1 and not self._pool.is_mine() and not self._loop.is_current():
            counts = parcel.nbytes + _OVERHEAD
            began = time.monotonic()
            if not self._windows[to].enter(counts, limit or None):
                _undo(outgoing)
                future.offer_exception(self._full(to, label, limit))
                return future
            waited = time.monotonic() - began
            waited = waited if waited > 1e-3 else 0.0
        call = self._underway.begin(outgoing, future, limit, waited, counts, label)
        if to in self._dead:
            self._bury_call(call)
            return future
        self._ship(to, Frame(Type.REQUEST, call.id, kind, link.chain, link.depth, parcel))
        return future

    def post(self, to: int, kind: str, payload: object) -> None:
        if to not in self._dead and not self._closing:
            self.send(to, kind, payload, 0, blocking=False)

    def on(self, kind: str, handler: Handler, place: Place) -> None:
        self._reception.on(kind, handler, place)

    def reduce(self, kind: type, reducer: Reducer) -> None:
        self._reducers.give(kind, reducer)

    def accompany(self, companion: Companion) -> None:
        self._companions.append(companion)

    def soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._loop.call_soon(partial(self._loop.call_later, seconds, call))

    def run(self, call: Callable[[], None]) -> None:
        self._pool.submit(call)

    def on_death(self, call: Callable[[int, Exception], None]) -> None:
        self._deaths.append(call)

    def before_shutdown(self, call: Callable[[float | None], None]) -> None:
        self._partings.append(call)

    def run_partings(self, timeout: float | None) -> None:
        """Call what `before_shutdown` was given."""
        self._leaving = True
        for call in self._partings:
            call(timeout)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many requests have come and have ended, and how many of this worker's wait for an answer."""
        return (*self._reception.counts, len(self._underway))

    def debug_info(self) -> dict[str, int]:
        """Give what there is at the moment, as numbers."""
        came, ended = self._reception.counts
        found = {
            "num_pending_futures": len(self._underway),
            "num_requests_served": ended,
            "num_requests_running": came - ended,
            "thread_pool_size": self._pool.threads,
            "num_idle_threads": self._pool.idle,
            "num_waiting_threads": self._pool.blocked,
            "num_queued_calls": self._pool.queued,
            "num_dead_workers": len(self._dead),
            "bytes_of_segments": self._sharing.nbytes,
        }
        for part in list(self.parts.values()):
            if isinstance(part, Described):
                found.update(part.debug_info())
        return found

    def stats(self) -> list[dict[str, str | int | float]]:
        """Give one row for each worker and function that was called or served."""
        return self._stats.table()

    @property
    def is_closed(self) -> bool:
        """Whether it takes part in nothing any more."""
        return self._closing

    def part(self) -> None:
        """From now on the end of a connection is no death: all workers have agreed to part."""
        self._closing = True

    def close(self, timeout: float = 2.0) -> None:
        """End the threads, close the sockets, fail what still waits."""
        self._closing = True
        deadline = time.monotonic() + timeout
        while not self._links.is_idle() and time.monotonic() < deadline:
            time.sleep(0.001)
        self._loop.close()
        self._links.close()
        self._sharing.close()
        for call in self._underway.all():
            if self._underway.end(call.id) is not None:
                call.future.offer_exception(
                    RpcError(f"{call.label}: {self._me.name} was shut down before the answer came.")
                )
        self._pool.close(timeout)

    def hold(self) -> None:
        """Have its thread pause while this process is forked."""
        self._loop.hold()

    def let_go(self) -> None:
        """Undo `hold`."""
        self._loop.let_go()

    def abandon(self) -> None:
        """Close, in a fork, what it has inherited; a fork is no worker."""
        if not self._closing:
            self._closing = True
            self._loop.abandon()
            self._links.abandon()

    def lost(self, peer: int, reason: str) -> None:
        """Note that a worker is gone; from any thread."""
        self._loop.call_soon(partial(self.peer_lost, peer, reason))

    def peer_lost(self, peer: int, reason: str) -> None:
        if not self._closing and peer not in self._dead:
            patience = _FAREWELL if self._leaving else _LAST_WORDS
            self._loop.call_later(patience, partial(self._bury, peer, reason))

    def segment(self, src: int, number: int, nbytes: int) -> memoryview:
        return self._sharing.memory(src, number, nbytes)

    def frame_arrived(self, src: int, frame: Frame) -> None:
        match frame.type:
            case Type.REQUEST:
                self._reception.take(src, frame)
            case Type.ANSWER | Type.FAILURE:
                self._answered(src, frame)
            case _:
                self._sharing.take(src, frame)

    def _answered(self, src: int, frame: Frame) -> None:
        call = self._underway.end(frame.id)
        if call is None:  # too late; what is in it may have to be let go of
            outgoing = Outgoing(self, src, frame.kind)
            self._pool.submit(partial(self._read_late, src, frame, outgoing))
            return
        nbytes = call.nbytes + frame.parcel.nbytes
        kind = call.outgoing.kind
        empty = frame.type is Type.ANSWER and kind in _EMPTY
        if self._loop.is_current() and (empty or self._reception.place(kind) == "io"):
            self._read_control(src, frame, call)
        elif not call.future.arrive(partial(self._read, src, frame, call.outgoing), self._drop):  # cancelled
            self._pool.submit(partial(self._read_late, src, frame, call.outgoing))
        # Whoever waits is waking up meanwhile.
        failed = frame.type is Type.FAILURE
        self._stats.add("called", src, call.label, nbytes, time.monotonic() - call.entered, failed)

    def _read_control(self, src: int, frame: Frame, call: Call) -> None:
        """Read an answer that holds nothing of users, and hand it on here, without the pool."""
        try:
            value = self._read(src, frame, call.outgoing)
        except Exception as error:
            call.future.offer_exception(error)
        else:
            call.future.offer_result(value)

    def _drop(self, read: Callable[[], object]) -> None:
        """Read an answer that nobody has asked for: RRefs in it are to be let go of. For finalisers."""

        def late() -> None:
            with suppress(Exception):
                read()

        if not self._closing:
            self.soon(partial(self._pool.submit, late))

    def _read(self, src: int, frame: Frame, outgoing: Outgoing) -> Any:
        """Read an answer, on the thread that wants it."""
        incoming = Incoming(self, src, outgoing.kind, outgoing)
        value = unpack(frame.parcel, incoming)
        frame.parcel = Parcel(b"", b"", ())
        arrive(self._companions, incoming)
        for future in incoming.before:
            future.wait()
        if frame.type is Type.FAILURE and isinstance(value, Failure):
            raise rebuild_failure(value)
        return value

    def _read_late(self, src: int, frame: Frame, outgoing: Outgoing) -> None:
        try:
            self._read(src, frame, outgoing)
        except Exception:
            _log.debug("a late answer of worker %d was a failure", src, exc_info=True)

    def _ship(self, to: int, frame: Frame) -> None:
        """Send a frame to another worker, or give a copy to this one."""
        if to != self._id:
            nbytes = frame.parcel.nbytes
            self._sharing.lend(to, frame, nbytes)
            self._links.send(to, frame, nbytes)
            return
        frame.parcel = Parcel(
            frame.parcel.body, frame.parcel.notes, [_copied(b) for b in frame.parcel.buffers]
        )
        if frame.type is Type.REQUEST:
            self._reception.take(to, frame)
        elif self._reception.place(frame.kind) == "io" and not self._loop.is_current():
            self._loop.call_soon(partial(self._answered, to, frame))
        else:
            self._answered(to, frame)

    def _tell(self, to: int, frame: Frame) -> None:
        self._links.send(to, frame, 0)

    def _next_link(self, kind: str) -> Link:
        """Give the place in the chain of the call that is about to be made."""
        above = current_link.get()
        if above is None:
            with self._lock:
                self._chains += 1
                return Link(self._id << _SHIFT | self._chains, 1)
        if above.depth >= DEEPEST:
            raise RpcError(
                f"{kind} from {self._me.name}: calls are nested {above.depth} deep; chain "
                f"{above.chain >> _SHIFT}:{above.chain & (1 << _SHIFT) - 1} looks like an endless recursion."
            )
        return Link(above.chain, above.depth + 1)

    def _wake(self, seconds: float) -> None:
        self._loop.call_soon(partial(self._loop.call_later, seconds, self._underway.expire))

    def _enter_io(self) -> None:
        own_context(self)
        self._hosted.enter_context(hosted_thread(IoThread()))

    def _bury(self, peer: int, reason: str) -> None:
        if self._closing or peer in self._dead:
            return
        self._dead[peer] = reason
        self._links.give_up(peer)
        self._windows[peer].close()
        self._sharing.lost(peer)
        self._underway.lost(peer, lambda call: self._died(peer, call.label))
        for call in self._deaths:
            call(peer, self._died(peer, "this"))

    def _bury_call(self, call: Call) -> None:
        if self._underway.end(call.id) is not None:
            _undo(call.outgoing)
            call.future.offer_exception(self._died(call.outgoing.to, call.label))

    def _died(self, peer: int, label: str) -> PeerDiedError:
        there = self.addresses[peer]
        return PeerDiedError(
            f"{label}, asked by {self._me.name}: {self._workers[peer].name} (rank {self.ranks[peer]}, host "
            f"{there.hostname}, pid {there.pid}) is gone: {self._dead.get(peer) or 'its process has ended'}."
        )

    def _full(self, to: int, label: str, limit: float) -> RpcTimeoutError:
        return RpcTimeoutError(
            f"{label} from {self._me.name} to {self._workers[to].name}: RPC waited {limit:g} s for room: "
            f"{self.options.window_calls} calls or {self.options.window_bytes} bytes are under way there and "
            f"not answered. Wait for some before you call more, or raise window_calls and window_bytes."
        )


def _at_fork(agent: weakref.ref[SocketAgent], call: Callable[[SocketAgent], None]) -> None:
    found = agent()
    if found is not None:
        call(found)


def _undo(outgoing: Outgoing) -> None:
    for undo in reversed(outgoing.undo):
        undo()


def _copied(buffer: memoryview) -> memoryview:
    memory = aligned(buffer.nbytes)
    memory.data[:] = buffer
    return memory.data
