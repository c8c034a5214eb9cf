"""A running job: start its ranks, pass their output on, and end it well, whatever happens."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from shardwise.launch.failure import SPEAKER, Verdict, judge, rank_list
from shardwise.launch.link import RankLink, fold_stacks
from shardwise.launch.output import Channel, Screen
from shardwise.launch.plan import Plan

__all__ = ["TIMED_OUT", "Job"]

_TICK = 0.1
_SETTLE = 0.5
"""Seconds to wait after the first failure for ranks that fail alike."""
_FAILED_GRACE = 2.0
"""Seconds that ranks get to end after another one failed; the whole job must be gone within five."""
_KILL_SECONDS = 1.0
_LEAVE_SECONDS = 3.0
_STACKS_SECONDS = 0.5
_KILLED = (None, -signal.SIGKILL, signal.SIGKILL, 128 + signal.SIGKILL)
"""What launchers of MPI say of themselves when a rank of theirs was killed; else they say why it vanished."""
TIMED_OUT = 124  # as timeout(1)


class Job:
    """The ranks of one plan, from start to verdict.

    Parameters
    ----------
    plan : Plan
        What to start.
    environ : mapping
        The environment to add the plan's variables to.
    screen : Screen
        Where output and messages go.
    timeout : float, optional
        Seconds after which the job is ended.
    grace : float
        Seconds that ranks get to end by themselves after Ctrl-C or SIGTERM.
    log_dir : Path, optional
        A folder for the unprefixed output of each rank.
    direct : bool
        Leave the streams of the ranks as they are, so that a single rank has the terminal for itself.
    reads_input : bool
        Whether rank 0 may read the launcher's standard input.
    """

    def __init__(
        self,
        plan: Plan,
        environ: Mapping[str, str],
        screen: Screen,
        *,
        timeout: float | None = None,
        grace: float = 10.0,
        log_dir: Path | None = None,
        direct: bool = False,
        reads_input: bool = True,
    ) -> None:
        self._plan = plan
        self._environ = environ
        self._screen = screen
        self._timeout = timeout
        self._grace = grace
        self._log_dir = log_dir
        self._direct = direct
        self._reads_input = reads_input
        self._orders: deque[int] = deque()
        self._selector = selectors.DefaultSelector()
        self._links: dict[int, RankLink] = {}
        self._channels: list[Channel] = []
        self._said = b""  # by mpiexec: shown only if nothing else explains a failure

    def order(self, number: int) -> None:
        """Take a signal that the launcher got; safe to call from a signal handler."""
        self._orders.append(number)

    def run(self) -> Verdict:
        """Start the ranks, wait for their end, and tell how it was.

        Returns
        -------
        Verdict
            Its lines have not been printed.

        Raises
        ------
        OSError
            If the command cannot be started, or output cannot be written.
        """
        # The path of a socket may hold 107 bytes, which a long TMPDIR would use up.
        base = None if len(tempfile.gettempdir()) < 60 else "/tmp"
        folder = tempfile.mkdtemp(prefix="shardwise-", dir=base)
        control = os.path.join(folder, "control")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(control)
                listener.listen(self._plan.size)
                self._selector.register(listener, selectors.EVENT_READ, self._accept)
                process = self._start(control)
                try:
                    return self._watch(process)
                finally:
                    self._end(process)
        finally:
            self._selector.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self, control: str) -> subprocess.Popen[bytes]:
        environment = {**self._environ, **self._plan.environment, "SHARDWISE_CONTROL": control}
        into = None if self._direct else subprocess.PIPE
        process = subprocess.Popen(
            self._plan.argv,
            env=environment,
            stdin=None if self._reads_input else subprocess.DEVNULL,
            stdout=into,
            stderr=None if into is None else subprocess.STDOUT,
            # Out of the terminal's reach: what Ctrl-C means is decided here, once.
            start_new_session=True,
        )
        if process.stdout is not None:
            self._selector.register(process.stdout.fileno(), selectors.EVENT_READ, self._hear)
        return process

    def _watch(self, process: subprocess.Popen[bytes]) -> Verdict:
        """Look on until the end is certain, bring it about if need be, and judge it."""
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        settled: float | None = None
        while not self._all_ended():
            self._step(_TICK)
            now = time.monotonic()
            while self._orders:
                number = self._orders.popleft()
                if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    return self._interrupted(number)
                if number == signal.SIGQUIT:
                    self._screen.say(self._stacks_of(self._running()))
                else:
                    self._send(number)
            if settled is None and any(link.ending for link in self._links.values()):
                settled = now + _SETTLE
            if settled is not None and now > settled:
                break
            if deadline is not None and now > deadline:
                return self._timed_out()
            if process.poll() is not None and not self._has_news():
                break
        running = self._running()
        endings = [link.ending for link in self._links.values() if link.ending is not None]
        verdict = judge(endings, self._plan.size, len(running))
        if endings:
            self._stop_ranks(signal.SIGTERM, min(self._grace, _FAILED_GRACE))
        self._leave(process)
        silent = verdict.root is not None and verdict.root.kind == "lost"
        if (silent and process.poll() not in _KILLED) or (
            verdict.root is None and (process.poll() != 0 or len(self._links) < self._plan.size)
        ):
            return self._unexplained(process)
        return verdict

    def _interrupted(self, number: int) -> Verdict:
        what = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
        count = len(self._running())
        again = " (Ctrl-C again to kill at once)" if number == signal.SIGINT else ""
        self._screen.say(f"{SPEAKER}: {what}; stopping {count} {'rank' if count == 1 else 'ranks'}{again}")
        late = self._stop_ranks(number, self._grace)
        killed = f"{rank_list(late)} did not stop within {self._grace:g} s, so {_pronoun(late)} killed"
        lines = [f"{SPEAKER}: {killed}"] if late else []
        return Verdict(128 + number, lines)

    def _timed_out(self) -> Verdict:
        running = self._running()
        stacks = self._stacks_of(running)
        absent = set(range(self._plan.size)) - set(self._links)
        lines = [f"{SPEAKER}: not finished after {self._timeout:g} s (--timeout)"]
        if running:
            lines[0] += f"; still running: {rank_list(running)} of {self._plan.size}"
        if absent:
            lines[0] += f"; never started: {rank_list(absent)}"
        self._stop_ranks(signal.SIGTERM, min(self._grace, _FAILED_GRACE))
        return Verdict(TIMED_OUT, [*lines, stacks] if stacks else lines)

    def _unexplained(self, process: subprocess.Popen[bytes]) -> Verdict:
        """A job that failed without any rank saying so: MPI could not start it, or aborted it."""
        code = process.returncode or 1
        code = code if code > 0 else 128 - code
        told = any(link.wrote_traceback for link in self._links.values())
        absent = set(range(self._plan.size)) - set(self._links)
        if absent:
            line = f"{SPEAKER}: {rank_list(absent)} of {self._plan.size} did not start (exit code {code})"
        else:
            line = f"{SPEAKER}: the job was aborted by MPI (exit code {code})"
        said = self._said.decode(errors="replace").strip()
        return Verdict(code, [f"{line}; {self._plan.argv[0]} said:", said] if said and not told else [line])

    def _step(self, seconds: float) -> bool:
        """Handle what has come, waiting for a short while if nothing has; False if nothing came."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            key.data(key.fileobj)
        return bool(ready)

    def _has_news(self) -> bool:
        """Give what is on its way a last chance to come."""
        return self._step(_SETTLE)

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        link = RankLink(connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda source: self._receive(link))

    def _receive(self, link: RankLink) -> None:
        known = link.rank
        if not link.receive():
            self._selector.unregister(link.connection)
        if known is None and link.rank is not None:
            self._links[link.rank] = link
            outputs = (
                [] if self._direct else [self._open_channel(link, link.rank, number) for number in (1, 2)]
            )
            link.welcome(outputs)

    def _open_channel(self, link: RankLink, rank: int, number: int) -> int:
        """Make a pipe for one stream of a rank; returns the end that the rank writes to."""
        source, end = os.pipe()
        name = "out" if number == 1 else "err"
        log = None if self._log_dir is None else self._log_dir / f"{rank}.{name}"
        channel = Channel(self._screen, rank, "stdout" if number == 1 else "stderr", log)
        self._channels.append(channel)

        def pump(_: object) -> None:
            data = os.read(source, 1 << 16)
            if data:
                channel.feed(data)
                link.note_output(data)
            else:
                channel.close()
                self._selector.unregister(source)
                os.close(source)

        self._selector.register(source, selectors.EVENT_READ, pump)
        return end

    def _hear(self, source: int) -> None:
        data = os.read(source, 1 << 16)
        if not data:
            self._selector.unregister(source)
        self._said = (self._said + data)[-(1 << 14) :]

    def _running(self) -> list[int]:
        return sorted(rank for rank, link in self._links.items() if not link.ended)

    def _all_ended(self) -> bool:
        return len(self._links) == self._plan.size and not self._running()

    def _send(self, number: int) -> None:
        for rank in self._running():
            self._links[rank].signal(number)

    def _stacks_of(self, ranks: list[int]) -> str:
        for rank in ranks:
            self._links[rank].stacks.clear()
            self._links[rank].signal(signal.SIGQUIT)
        self._run_on(_STACKS_SECONDS)
        return fold_stacks({rank: self._links[rank].stacks for rank in ranks})

    def _run_on(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._all_ended():
            self._step(min(left, _TICK))

    def _stop_ranks(self, number: int, patience: float) -> list[int]:
        """Ask the ranks to end, then kill those that do not; returns these."""
        self._send(number)
        end = time.monotonic() + patience
        while self._running() and time.monotonic() < end:
            self._step(_TICK)
            if any(order in (signal.SIGINT, signal.SIGTERM) for order in self._orders):
                break  # asked twice
        late = self._running()
        self._send(signal.SIGKILL)
        self._run_on(_KILL_SECONDS)
        return late

    def _leave(self, process: subprocess.Popen[bytes]) -> None:
        """Let supervisors go, and wait until the launcher of MPI has followed them."""
        for link in self._links.values():
            link.leave()
        end = time.monotonic() + _LEAVE_SECONDS
        while process.poll() is None and time.monotonic() < end:
            self._step(0.02)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Leave nothing running and nothing unwritten."""
        self._leave(process)
        for end, patience in ((process.terminate, 1.0), (process.kill, 1.0)):
            if process.poll() is None:
                end()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(patience)
        for link in self._links.values():
            link.kill()
        # A process that a rank left behind may hold its pipes open, so their end is not waited for.
        while self._step(0.0):
            pass
        for channel in self._channels:
            channel.close()
        for key in list(self._selector.get_map().values()):
            if key.data == self._hear or not isinstance(key.fileobj, int):
                continue
            os.close(key.fileobj)
        if process.stdout is not None:
            process.stdout.close()
        for link in self._links.values():
            link.close()


def _pronoun(ranks: list[int]) -> str:
    return "it was" if len(ranks) == 1 else "they were"
