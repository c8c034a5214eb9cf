"""A rank that fails ends the whole job, with one traceback.

An MPI process that raises would wait in MPI's finalisation for the others, which wait for it: for ever. So
the world of an MPI process hooks what Python calls for an exception that nobody caught. The rank tells the
others; of those that fail alike only one prints; then it aborts the job, whatever its threads are doing.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, Protocol

from shardwise.backend.errors import WorldAbortedError

__all__ = ["SUPERVISED", "Colleagues", "Guard"]

SUPERVISED = "SHARDWISE_SUPERVISED"
"""Set in the environment of a rank whose launcher sees how it ends, and tells."""

# Seconds. Of the ranks that fail alike one reports: rank 0 at once if it failed hardly later than the first;
# the others give it, and those below them, time to.
_HEAD_START = 0.2
_GRACE = 0.5
_STAGGER = 0.05
_MOST_STAGGER = 1.0
_LOOK = 0.01
_DRAIN = 0.05  # for a launcher to read what was printed, before it hears of the abort
_KILLED = 3.0  # within which the rank that prints ends those that do not
_BURIAL = 1.0  # within which a launcher that saw a rank die ends the others, and has its exit code
_MOURNING = 10.0  # that a rank which waits for nobody goes on after another one has died
_HARD_LIMIT = 20.0  # for all of this, whatever hangs
_ABORTING = 3.0  # for MPI to end the job


class Colleagues(Protocol):
    """What the guard needs of a transport."""

    rank: int
    size: int
    hostname: str

    def announce_failure(self, when: float) -> None:
        """Tell all other ranks that this one failed, without waiting."""

    def failures(self) -> dict[int, float]:
        """Give the other ranks that have told so, and when they failed."""

    def leave(self) -> None:
        """Wait until all ranks have come here."""

    def abort(self, code: int) -> None:
        """End all ranks."""

    def finalize(self) -> None:
        """Say goodbye to MPI."""


class Guard:
    """Hooks of one process, from `install` until `remove`."""

    def __init__(self, colleagues: Colleagues) -> None:
        self._colleagues = colleagues
        self._pid = os.getpid()
        self._failing = threading.Lock()
        self._exit_code = 0
        self._timers: list[threading.Timer] = []
        self._excepthook = sys.excepthook
        self._thread_hook = threading.excepthook
        self._exit = sys.exit
        self._exit_at_once = os._exit
        self._supervised = False

    def install(self) -> None:
        """Take over the hooks of the interpreter."""
        self._excepthook, sys.excepthook = sys.excepthook, self._uncaught
        self._thread_hook, threading.excepthook = threading.excepthook, self._uncaught_in_thread
        self._exit = sys.exit
        sys.exit = self._leaving
        self._exit_at_once = os._exit
        self._supervised = SUPERVISED in os.environ
        if not self._supervised:
            os._exit = self._leaving_at_once
        atexit.register(self._at_exit)

    def bereaved(self, story: str) -> None:
        """End this rank some seconds from now, since another one has died: there is nothing to go on with."""
        timer = threading.Timer(_MOURNING, self._follow, (story,))
        timer.name = "shardwise-mourning"
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def remove(self) -> None:
        """Give the hooks back, as far as nobody has taken them over since."""
        atexit.unregister(self._at_exit)
        for timer in self._timers:
            timer.cancel()
        if sys.excepthook == self._uncaught:
            sys.excepthook = self._excepthook
        if threading.excepthook == self._uncaught_in_thread:
            threading.excepthook = self._thread_hook
        if sys.exit == self._leaving:
            sys.exit = self._exit
        if os._exit == self._leaving_at_once:
            os._exit = self._exit_at_once

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != self._pid:  # a forked child is not a rank
            self._exit_code = 1
            self._excepthook(kind, error, trace)
            return
        if issubclass(kind, KeyboardInterrupt):
            self._fail(130, lambda: self._say("was interrupted; the job ends."))
        self._fail(1, lambda: self._print(kind, error, trace), isinstance(error, WorldAbortedError))

    def _uncaught_in_thread(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_type is SystemExit or os.getpid() != self._pid:
            self._thread_hook(args)
            return
        kind, error, trace = args.exc_type, args.exc_value, args.exc_traceback
        self._fail(1, lambda: self._print(kind, error or kind(), trace))

    def _leaving(self, code: object = None) -> NoReturn:
        raise _Exit(self, code)

    def _leaving_at_once(self, status: int) -> NoReturn:
        """Stand in for `os._exit`, after which MPI ends the others or not, with this code or that."""
        if os.getpid() == self._pid and not self._failing.locked():
            if status:
                self._fail(status, lambda: self._say(f"called os._exit({status}); the job ends."))
            self._leave()
            self._colleagues.finalize()
            _end_after(_HARD_LIMIT)
            _end_process(status)
        self._exit_at_once(status)

    def exits(self, code: object) -> None:
        """Note that ``sys.exit(code)`` was called and nobody caught it."""
        self._exit_code = code if isinstance(code, int) else 0 if code is None else 1

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            # It must not end MPI, as mpi4py would at exit: MPI would take it for the rank and abort the job.
            _flush()
            self._exit_at_once(self._exit_code)
        if self._exit_code:
            code = self._exit_code
            self._fail(code, lambda: self._say(f"called sys.exit({code}); the job ends."))
        self._leave()

    def _leave(self) -> None:
        try:
            self._colleagues.leave()
        except WorldAbortedError as error:
            if not self._supervised:
                self._follow(str(error))

    def _follow(self, story: str) -> NoReturn:
        self._fail(1, lambda: self._say(f"was stopped: {story}"), follows=True)

    def _fail(self, code: int, report: Callable[[], None], follows: bool = False) -> NoReturn:
        """Report, or leave it to a rank that failed alike, and end the job.

        A rank that follows one which has died leaves it to the launcher, for a while, to end the job. One
        whose launcher sees how it ends leaves that to it anyway, and MPI has nothing to say.
        """
        if not self._failing.acquire(blocking=False):
            while True:  # another thread of this rank is ending the job
                time.sleep(1)
        _end_after(_HARD_LIMIT)
        rank, when = self._colleagues.rank, time.time()
        self._colleagues.announce_failure(when)
        if self._supervised:
            report()
            _flush()
            self._exit_at_once(code)
        if self._is_preceded(rank, when):
            time.sleep(_KILLED)
        else:
            report()
        _flush()
        time.sleep(_BURIAL if follows else _DRAIN)
        _end_after(_ABORTING)
        self._colleagues.abort(code)
        self._exit_at_once(code)

    def _is_preceded(self, rank: int, when: float) -> bool:
        """Say whether another rank reports: the one that failed first, and rank 0 has a head start.

        Rank 0 knows at once, since whoever failed long before it has told so. The others look for a while.
        """
        patience = _GRACE + min(_STAGGER * rank, _MOST_STAGGER) if rank else 0.0
        until = time.monotonic() + patience
        while True:
            failed = self._colleagues.failures()
            if any(_order(other, then) < _order(rank, when) for other, then in failed.items()):
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK)

    def _say(self, what: str) -> None:
        who = self._colleagues
        sys.stderr.write(f"shardwise: rank {who.rank} of {who.size} on {who.hostname} {what}\n")

    def _print(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, WorldAbortedError):
            self._say(f"was stopped: {error}")
            return
        if not self._supervised:
            self._say("raised; the job ends:")
        if self._excepthook is sys.__excepthook__:
            # The default hook may write to a replaced or closed stream; one write keeps the lines together.
            sys.stderr.write("".join(traceback.format_exception(kind, error, trace)))
        else:
            self._excepthook(kind, error, trace)


def _end_after(seconds: float) -> None:
    """End this process then, even if MPI hangs and holds the interpreter: that thread is no Python thread."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)


def _end_process(status: int) -> None:
    """End it as C does: no more Python runs, but what libraries have registered for the end does.

    There, and not in MPI_Finalize, MPICH tells its launcher that all is well; the launcher kills the ranks
    that are left when one ends without.
    """
    ctypes.PyDLL(None).exit(status)  # keeps the interpreter's lock, so that no other thread sees it


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed, or nobody reads it
            continue


def _order(rank: int, when: float) -> tuple[float, int]:
    return (when if rank else when - _HEAD_START, rank)


class _Exit(SystemExit):
    """What `sys.exit` raises under a guard: notices when it dies uncaught.

    An exception that someone catches dies while Python code runs below it. The one that ends the interpreter
    dies when no frame is left, before the exit functions run, which are not told the exit code.
    """

    def __init__(self, guard: Guard, code: object) -> None:
        super().__init__(code)
        self._guard = guard

    def __del__(self) -> None:
        if sys._getframe().f_back is None:
            self._guard.exits(self.code)
