"""One worker of a `Simulation`: an agent whose messages are events of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from random import Random
from typing import Any, Protocol

from shardwise.backend.errors import PeerDiedError, RpcTimeoutError
from shardwise.rpc.agent import Agent, Companion, Handler, Incoming, Outgoing, Place, Reducer, Request
from shardwise.rpc.future import Future, collect_all
from shardwise.rpc.pickling import Parcel, Reducers, pack, unpack
from shardwise.rpc.serving.failure import describe_failure, rebuild_failure
from shardwise.rpc.worker_info import WorkerInfo

__all__ = ["SimulatedAgent"]

_TIMEOUT = 60.0  # seconds, as of a real agent


class Medium(Protocol):
    """What carries the messages: a `Simulation`."""

    rng: Random
    delay: float
    loss: float
    repeat: float
    call_loss: float
    now: float
    dead: set[int]
    agents: list[SimulatedAgent]

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        """Have `event` happen some time from now."""

    def transit(self, src: int, to: int) -> float | None:
        """Draw how long a message takes; None if it is stopped."""

    def heals(self) -> float:
        """Give how long it takes until nothing stops messages."""

    def start(self, agent: Agent, task: Callable[[], None]) -> None:
        """Have `task` run on a thread of its own, of that worker."""


class SimulatedAgent:
    """Carries messages by way of a simulation; see `Agent`.

    Parameters
    ----------
    simulation : Medium
    me : WorkerInfo
    workers : sequence of WorkerInfo
    """

    def __init__(self, simulation: Medium, me: WorkerInfo, workers: Sequence[WorkerInfo]) -> None:
        self.me = me
        self.workers = workers
        self.parts: dict[type, Any] = {}
        self.calls: dict[int, tuple[Future[Any], Outgoing]] = {}  # that were not answered
        self.sent = 0  # messages
        self._simulation = simulation
        self._numbers = count()
        self._handlers: dict[str, tuple[Handler, Place]] = {}
        self._reducers = Reducers()
        self._companions: list[Companion] = []
        self._on_death: list[Callable[[int, Exception], None]] = []
        self._endings: list[Callable[[float | None], None]] = []
        self._heard: set[int] = set()

    # ---- asking

    def send(
        self, to: int, kind: str, payload: object, timeout: float | None = None, *, blocking: bool = True
    ) -> Future[Any]:
        outgoing = Outgoing(self, to, kind)
        parcel = _copied(pack(payload, outgoing, self._reducers, self._companions))
        number = next(self._numbers)
        answer: Future[Any] = Future(self.run)
        if to in self._heard:
            _undo(outgoing)
            answer.set_exception(PeerDiedError(f"{self.workers[to]} is dead"))
            return answer
        self.calls[number] = answer, outgoing
        peer = self._simulation.agents[to]
        self._carry(to, kind, lambda: peer._asked(self, number, kind, parcel), outgoing)
        seconds = _TIMEOUT if timeout is None else timeout
        if seconds:
            self._simulation.at(seconds, lambda: self._time_out(number, kind, seconds))
        return answer

    def post(self, to: int, kind: str, payload: object) -> None:
        self.send(to, kind, payload, 5.0).on_done(lambda done: self._post_again(done, to, kind, payload))

    def _post_again(self, done: Future[Any], to: int, kind: str, payload: object) -> None:
        if isinstance(done.exception(), RpcTimeoutError):
            self.post(to, kind, payload)

    def _time_out(self, number: int, kind: str, seconds: float) -> None:
        call = self.calls.get(number)
        if call is not None:
            self.calls[number] = Future(), call[1]  # a late answer is read, and dropped
            call[0].offer_exception(
                RpcTimeoutError(f"RPC ran for more than set timeout ({seconds:g} s): {kind}")
            )

    # ---- the way

    def _carry(self, to: int, kind: str, event: Callable[[], None], outgoing: Outgoing) -> None:
        """Have a message arrive some time, perhaps twice, perhaps never."""
        self.sent += 1
        simulation, me = self._simulation, self.me.id
        rng = simulation.rng
        control = kind == "errand"  # of a courier, which bears that it is lost or comes twice
        if me == to:
            simulation.at(rng.uniform(0, simulation.delay / 10), self._unless_dead(to, event, outgoing))
            return
        lost = rng.random() < (simulation.loss if control else simulation.call_loss)
        if lost:
            _undo(outgoing)
            return
        for _ in range(2 if control and rng.random() < simulation.repeat else 1):
            seconds = simulation.transit(me, to)
            if seconds is None:
                if control:
                    continue
                seconds = simulation.heals() + rng.uniform(0, simulation.delay)
            simulation.at(seconds, self._unless_dead(to, event, outgoing))

    def _unless_dead(self, to: int, event: Callable[[], None], outgoing: Outgoing) -> Callable[[], None]:
        def happen() -> None:
            dead = self._simulation.dead
            if to not in dead:
                event()
            elif self.me.id not in dead:
                _undo(outgoing)

        return happen

    # ---- answering

    def _asked(self, asker: SimulatedAgent, number: int, kind: str, parcel: Parcel) -> None:
        handler, place = self._handlers[kind]
        message = Incoming(self, asker.me.id, kind)

        def handle() -> None:
            try:
                with ExitStack() as stack:
                    for context in contexts:
                        stack.enter_context(context)
                    result = handler(Request(message.src, payload, message))
            except BaseException as error:
                self._answer(asker, number, message, False, error)
                return
            if isinstance(result, Future):
                result.on_done(lambda done: self._answer_later(asker, number, message, done))
            else:
                self._answer(asker, number, message, True, result)

        try:
            payload = unpack(_copied(parcel), message)
        except BaseException as error:
            self._answer(asker, number, message, False, error)
            return
        contexts = self._arrive(message)
        if place == "io":
            handle()
        else:
            collect_all(message.before).on_done(lambda _: self.run(handle))

    def _arrive(self, message: Incoming) -> list[Any]:
        found = []
        for companion in self._companions:
            if companion.key in message.notes:
                context = companion.arrive(message.notes[companion.key], message)
                if context is not None:
                    found.append(context)
        return found

    def _answer_later(self, asker: SimulatedAgent, number: int, message: Incoming, done: Future[Any]) -> None:
        error = done.exception()
        # Pickling may run code of users, so it is not for the thread that completes the future.
        if error is None:
            self.run(lambda: self._answer(asker, number, message, True, done.value()))
        else:
            self.run(lambda: self._answer(asker, number, message, False, error))

    def _answer(
        self, asker: SimulatedAgent, number: int, message: Incoming, good: bool, value: object
    ) -> None:
        outgoing = Outgoing(self, asker.me.id, message.kind, message)
        if isinstance(value, BaseException) and not good:
            value = describe_failure(value, str(self.me))
        try:
            parcel = _copied(pack((good, value), outgoing, self._reducers, self._companions))
        except Exception as error:
            outgoing = Outgoing(self, asker.me.id, message.kind, message)
            failure = describe_failure(error, str(self.me))
            parcel = _copied(pack((False, failure), outgoing, self._reducers, self._companions))
        self._carry(asker.me.id, message.kind, lambda: asker._answered(number, message.src, parcel), outgoing)

    def _answered(self, number: int, src: int, parcel: Parcel) -> None:
        answer, outgoing = self.calls.pop(number, (None, None))
        if answer is None or outgoing is None:  # a second copy
            return
        message = Incoming(self, outgoing.to, outgoing.kind, outgoing)
        try:
            told: Any = unpack(parcel, message)
            good, value = told
            if not good:
                value = rebuild_failure(value)
        except Exception as error:
            good, value = False, error
        self._arrive(message)
        if good:
            collect_all(message.before).on_done(lambda _: answer.offer_result(value))
        else:
            answer.offer_exception(value)

    # ---- the rest

    def on(self, kind: str, handler: Handler, place: Place) -> None:
        self._handlers[kind] = handler, place

    def reduce(self, kind: type, reducer: Reducer) -> None:
        self._reducers.give(kind, reducer)

    def accompany(self, companion: Companion) -> None:
        self._companions.append(companion)

    def soon(self, call: Callable[[], None]) -> None:
        self._simulation.at(0.0, call)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._simulation.at(seconds, call)

    def run(self, call: Callable[[], None]) -> None:
        self._simulation.start(self, call)

    def on_death(self, call: Callable[[int, Exception], None]) -> None:
        self._on_death.append(call)

    def before_shutdown(self, call: Callable[[float | None], None]) -> None:
        self._endings.append(call)

    def hear_death(self, rank: int) -> None:
        """Learn that a worker has died."""
        self._heard.add(rank)
        error = PeerDiedError(f"{self.workers[rank]} has died")
        for number, (answer, outgoing) in list(self.calls.items()):
            if outgoing.to == rank:
                del self.calls[number]
                answer.offer_exception(error)
        for call in self._on_death:
            call(rank, error)

    def shut_down(self, timeout: float | None = None) -> None:
        """Do what a graceful shutdown does once all workers have entered it."""
        for call in self._endings:
            call(timeout)


def _undo(outgoing: Outgoing) -> None:
    undo, outgoing.undo = outgoing.undo, []
    for each in reversed(undo):
        each()


def _copied(parcel: Parcel) -> Parcel:
    """Give the bytes memory of their own, as a wire does."""
    return Parcel(
        bytes(parcel.body), bytes(parcel.notes), [bytearray(memoryview(each)) for each in parcel.buffers]
    )
