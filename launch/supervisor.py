"""The process beside each rank: passes output, input and signals, and sees to it that the rank ends.

Loaded by path, like `rank.py`, with nothing but the standard library. What it says and hears, and how, is in
`uplink.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Mapping

# As type checkers know it, without importing typing, which takes longer than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from shardwise.launch.uplink import Link

__all__ = ["supervise"]

_LEAVE = 0
_BLOCK = 1 << 16
_PROXY_SECONDS = 1.0
_LAST_WORDS_SECONDS = 2.0

# What MPI's launchers run on each host, as the kernel has their names: 15 letters.
_PROXIES = ("hydra_pmi_proxy", "hydra_bstrap_pr", "pmi_proxy", "prted", "orted")

_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
"""Signals of batch systems and of MPI's launchers, which reach the supervisor and are meant for the rank."""


class _Pump:
    """The streams of a rank, where the launcher is on another host: pipes, read and written here."""

    def __init__(self, link: Link, pipes: Mapping[str, int]) -> None:
        self._link = link
        self._outputs = {pipes["stdout"]: b"o", pipes["stderr"]: b"e"}
        self._input = pipes["stdin"]
        self._waiting = b""
        self._ending = False
        for pipe in pipes.values():
            os.set_blocking(pipe, False)

    @property
    def sources(self) -> list[int]:
        return list(self._outputs)

    @property
    def target(self) -> int | None:
        """Where input is waiting to be written to."""
        return self._input if self._waiting and self._input >= 0 else None

    def pass_output(self, source: int) -> bool:
        """Pass on what there is; False at the end of the stream."""
        try:
            data = os.read(source, _BLOCK)
        except BlockingIOError:
            return True
        if data:
            self._link.send(self._outputs[source], data)
        return bool(data)

    def drain(self) -> None:
        """Pass on all that there is now; processes that the rank left behind may hold the pipes open."""
        for source in self._outputs:
            while _is_readable(source) and self.pass_output(source):
                pass

    def take_input(self, data: bytes) -> None:
        self._waiting += data
        self._ending = self._ending or not data
        self.pass_input()

    def pass_input(self) -> None:
        """Write what the rank takes, and say how much that was, so that more is sent."""
        if self._input < 0:
            return
        done = 0
        try:
            while self._waiting:
                count = os.write(self._input, self._waiting)
                self._waiting, done = self._waiting[count:], done + count
        except BlockingIOError:
            pass
        except OSError:  # nobody reads
            done, self._waiting, self._ending = done + len(self._waiting), b"", True
        if done:
            self._link.send(b"a", struct.pack("!I", done))
        if self._ending and not self._waiting:
            os.close(self._input)
            self._input = -1


class _Rank:
    """The process of the rank, and those that it started."""

    def __init__(self, pid: int, *, leads: bool) -> None:
        self.status: int | None = None
        self._pid = pid
        self._leads = leads

    def look(self) -> bool:
        """Whether it has ended since the last look."""
        if self.status is not None:
            return False
        ended, raw = os.waitpid(self._pid, os.WNOHANG)
        if ended:
            self.status = os.waitstatus_to_exitcode(raw)
        return bool(ended)

    def signal(self, number: int) -> None:
        """Pass on a signal, if it still runs."""
        if self.status is None:
            os.kill(self._pid, number)
            if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                os.kill(self._pid, signal.SIGCONT)  # a rank that was stopped would not hear of it

    def end(self) -> int:
        """Kill what is left, if it has not ended well; gives the exit code for this process."""
        status = self.status
        if status is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        if self._leads and status != 0:
            with contextlib.suppress(OSError):  # it had started nothing, or all of that has ended
                os.killpg(self._pid, signal.SIGKILL)
        return 1 if status is None else status if status >= 0 else 128 - status


def supervise(child: int, link: Link, report: int, pipes: Mapping[str, int] | None, *, leads: bool) -> int:
    """Pass reports up and signals down until the rank has ended and the launcher lets go.

    Parameters
    ----------
    child : int
        The process of the rank.
    link : Link
    report : int
        The pipe of its reports.
    pipes : mapping, optional
        "stdin", "stdout" and "stderr": this side of the streams of the rank, where they are pumped.
    leads : bool
        Whether the rank leads a process group of its own, which ends with it unless it ends well.

    Returns
    -------
    int
        The exit code for this process.
    """
    woken = _wake_on_signals()
    rank = _Rank(child, leads=leads)
    pump = _Pump(link, pipes) if pipes else None
    if link.heard_early() and _is_over(rank, link, pump):
        return _leave(rank, link)
    poll = select.poll()
    for source in (link.connection.fileno(), report, woken, *(pump.sources if pump else ())):
        poll.register(source, select.POLLIN)
    while True:
        if rank.look():
            if pump:
                pump.drain()
            _drain(report, link)
            message = {"kind": "exit", "status": rank.status, "time": time.monotonic()}
            link.send(b"r", json.dumps(message).encode() + b"\n")
            if rank.status == 0:
                _part(link)
                return 0
        target = pump.target if pump else None
        if target is not None:
            poll.register(target, select.POLLOUT)
        ready = [number for number, _ in poll.poll()]
        if target is not None:
            poll.unregister(target)
        for source in ready:
            if source == woken:
                for number in os.read(woken, 512):
                    if number in _PASSED_ON:
                        rank.signal(number)
            elif source == report:
                if not _forward(report, link):
                    poll.unregister(report)
            elif source == target and pump:
                pump.pass_input()
            elif pump and source in pump.sources:
                if not pump.pass_output(source):
                    poll.unregister(source)
            elif _is_over(rank, link, pump):
                return _leave(rank, link)


def _wake_on_signals() -> int:
    """Make signals readable, as bytes of a pipe."""
    # Ctrl-C in a terminal may reach every process; the launcher says what it is to mean.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, *_PASSED_ON):
        signal.signal(number, _note)
    return woken


def _note(number: int, stack: object) -> None:
    """Handle a signal, so that its byte is written."""


def _is_over(rank: _Rank, link: Link, pump: _Pump | None) -> bool:
    """Do what the launcher says; True if it says to end, or says nothing any more."""
    frames = link.receive()
    if frames is None:
        return True
    for kind, payload in frames:
        if kind == b"i" and pump:
            pump.take_input(payload)
        elif kind == b"s":
            for number in payload:
                if number == _LEAVE:
                    return True
                rank.signal(number)
    return False


def _leave(rank: _Rank, link: Link) -> int:
    if link.lost and link.path:
        # First of all: once ranks of other hosts have ended, MPI's launcher kills this process too.
        with contextlib.suppress(OSError):  # another rank was faster
            os.unlink(link.path)
            os.rmdir(os.path.dirname(link.path))
    code = rank.end()
    if link.lost and not link.path:
        _end_proxy()
    return code


def _end_proxy() -> None:
    """Do what a launcher that has gone, or cannot be reached any more, cannot do."""
    # MPI's own process on this host may not notice for hours that it is alone. If it does, it ends by itself.
    proxy = os.getppid()
    try:
        with open(f"/proc/{proxy}/comm") as file:
            if file.read().strip() not in _PROXIES:
                return
    except OSError:
        return
    end = time.monotonic() + _PROXY_SECONDS
    while os.getppid() == proxy and time.monotonic() < end:
        time.sleep(0.02)
    if os.getppid() == proxy:
        os.kill(proxy, signal.SIGKILL)


def _part(link: Link) -> None:
    """End the connection so that all that was sent arrives, though something unread may have come."""
    if link.path:
        return
    with contextlib.suppress(OSError):
        link.connection.shutdown(socket.SHUT_WR)
        link.connection.settimeout(_LAST_WORDS_SECONDS)
        while link.connection.recv(_BLOCK):
            pass


def _forward(report: int, link: Link) -> bool:
    """Pass on what the rank reported; False at its end."""
    try:
        data = os.read(report, _BLOCK)
    except BlockingIOError:
        return True
    if data:
        link.send(b"r", data)
    return bool(data)


def _drain(report: int, link: Link) -> None:
    # Processes that the rank started may hold the pipe open, so its end cannot be waited for.
    while _is_readable(report) and _forward(report, link):
        pass


def _is_readable(source: int) -> bool:
    poll = select.poll()  # not select(), which takes no number above 1023
    poll.register(source, select.POLLIN)
    return bool(poll.poll(0))
