"""A running job: start its ranks, watch them, and end it well, whatever happens."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from shardwise.collectives.rank_list import rank_list
from shardwise.launch.failure import SPEAKER, Verdict, blamed_rank, is_by_mpi, judge
from shardwise.launch.link import fold_stacks
from shardwise.launch.output import Screen
from shardwise.launch.plan import Plan
from shardwise.launch.switchboard import Switchboard

__all__ = ["TIMED_OUT", "Job"]

_TICK = 0.1
_START_SECONDS = 60.0
_SETTLE = 0.5
"""Seconds to wait after the first failure for ranks that fail alike."""
_FAILED_GRACE = 2.0
"""Seconds that ranks get to end after another one failed; the whole job must be gone within five."""
_KILL_SECONDS = 1.0
_LEAVE_SECONDS = 2.0
_STACKS_SECONDS = 0.5
TIMED_OUT = 124
"""The exit code after a time-out, as that of timeout(1)."""
_KILLED = (None, -signal.SIGKILL, signal.SIGKILL, 128 + signal.SIGKILL)
"""What launchers of MPI say of themselves when a rank of theirs was killed; else they say why it vanished."""


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
        self._direct = direct
        self._orders: deque[int] = deque()
        self._board = Switchboard(plan.reach, screen, log_dir, direct=direct, reads_input=reads_input)

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
        with self._board:
            process = self._start()
            try:
                return self._watch(process)
            finally:
                self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**self._environ, **self._plan.environment, **self._board.handed}
        process = subprocess.Popen(
            self._plan.argv,
            env=environment,
            stdin=None if self._direct else subprocess.DEVNULL,
            stdout=None if self._direct else subprocess.PIPE,
            stderr=None if self._direct else subprocess.STDOUT,
            # Out of the terminal's reach: what Ctrl-C means is decided here, once.
            start_new_session=True,
        )
        if process.stdout is not None:
            self._board.listen_to(process.stdout.fileno())
        return process

    def _watch(self, process: subprocess.Popen[bytes]) -> Verdict:
        """Look on until the end is certain, bring it about if need be, and judge it."""
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        settled: float | None = None
        patience: float | None = time.monotonic() + _START_SECONDS
        while not self._all_ended():
            self._board.step(_TICK)
            now = time.monotonic()
            while self._orders:
                number = self._orders.popleft()
                if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    return self._interrupted(number)
                if number == signal.SIGQUIT:
                    self._screen.say(self._stacks_of(self._running()))
                else:
                    self._send(number)
            if settled is None and any(link.ending for link in self._board.links.values()):
                settled = now + _SETTLE
            if settled is not None and now > settled:
                break
            if patience is not None and now > patience:
                patience = None
                self._tell_who_is_late()
            if deadline is not None and now > deadline:
                return self._timed_out()
            if process.poll() is not None and not self._board.step(_SETTLE):
                break  # and nothing more is on its way
        return self._finished(process)

    def _tell_who_is_late(self) -> None:
        """Name the ranks that have not started: those that have wait for them, without a word."""
        absent = set(range(self._plan.size)) - set(self._board.links)
        if absent:
            self._screen.say(
                f"{SPEAKER}: {rank_list(absent)} of {self._plan.size} did not start within "
                f"{_START_SECONDS:g} s; still waiting (--timeout SECONDS would end that)"
            )

    def _finished(self, process: subprocess.Popen[bytes]) -> Verdict:
        """The job has ended by itself, or a rank has failed and the others must follow."""
        endings = [link.ending for link in self._board.links.values() if link.ending is not None]
        others = set(self._running()) - {ending.rank for ending in endings}
        hosts = {rank: link.host.partition("/")[0] for rank, link in self._board.links.items()}
        verdict = judge(endings, self._plan.size, len(others), hosts)
        if endings:
            self._stop_ranks(signal.SIGTERM, min(self._grace, _FAILED_GRACE))
        self._leave(process)
        if verdict.root is None:
            explained = process.poll() == 0 and len(self._board.links) == self._plan.size
        else:
            explained = verdict.root.kind != "lost" or process.poll() in _KILLED
        early = sorted(rank for rank, link in self._board.links.items() if link.ended and link.ending is None)
        left = verdict.root is not None and (
            (bool(early) and is_by_mpi(verdict.root)) or blamed_rank(verdict.root) in early
        )
        if not explained:
            verdict = self._unexplained(process)
        if verdict.root is not None and verdict.root.kind in ("signal", "exit", "lost"):
            unseen = self._board.unseen(verdict.root.rank)
            if unseen:
                line = f"{SPEAKER}: the last that rank {verdict.root.rank} wrote to stderr:"
                verdict = replace(verdict, lines=[*verdict.lines, line, unseen])
        if left:  # os._exit(0) leaves without a word, and MPI or the others' waits end for it
            line = f"{SPEAKER}: {rank_list(early)} had ended before, with exit code 0; by os._exit()?"
            verdict = replace(verdict, lines=[*verdict.lines, line])
        return verdict

    def _interrupted(self, number: int) -> Verdict:
        what = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
        count = len(self._running())
        again = " (Ctrl-C again to kill at once)" if number == signal.SIGINT else ""
        self._screen.say(f"{SPEAKER}: {what}; stopping {count} {'rank' if count == 1 else 'ranks'}{again}")
        late = self._stop_ranks(number, self._grace)
        them = "it was" if len(late) == 1 else "they were"
        line = f"{SPEAKER}: {rank_list(late)} did not stop within {self._grace:g} s, so {them} killed"
        return Verdict(128 + number, [line] if late and not self._orders else [])

    def _timed_out(self) -> Verdict:
        running = self._running()
        stacks = self._stacks_of(running)
        absent = set(range(self._plan.size)) - set(self._board.links)
        line = f"{SPEAKER}: not finished after {self._timeout:g} s"
        if running:
            line += f"; still running: {rank_list(running)} of {self._plan.size}"
        if absent:
            line += f"; never started: {rank_list(absent)}"
        self._stop_ranks(signal.SIGTERM, min(self._grace, _FAILED_GRACE))
        return Verdict(TIMED_OUT, [line, stacks] if stacks else [line], timed_out=True)

    def _unexplained(self, process: subprocess.Popen[bytes]) -> Verdict:
        """A job that failed without any rank saying so: MPI could not start it, or aborted it."""
        code = process.returncode or 1
        code = code if code > 0 else 128 - code
        told = any(link.wrote_traceback for link in self._board.links.values())
        absent = set(range(self._plan.size)) - set(self._board.links)
        if absent:
            line = f"{SPEAKER}: {rank_list(absent)} of {self._plan.size} did not start (exit code {code})"
        else:
            line = f"{SPEAKER}: the job was aborted by MPI (exit code {code})"
        said = self._board.said.decode(errors="replace").strip()
        lines = [f"{line}; {self._plan.argv[0]} said:", said] if said and not told else [line]
        return Verdict(code, lines, started=not absent)

    def _running(self) -> list[int]:
        return sorted(rank for rank, link in self._board.links.items() if not link.ended)

    def _all_ended(self) -> bool:
        return len(self._board.links) == self._plan.size and not self._running()

    def _send(self, number: int) -> None:
        for rank in self._running():
            self._board.links[rank].signal(number)

    def _stacks_of(self, ranks: list[int]) -> str:
        links = {rank: self._board.links[rank] for rank in ranks}
        for link in links.values():
            link.stacks.clear()
            link.signal(signal.SIGQUIT)
        self._run_on(_STACKS_SECONDS)
        return fold_stacks({rank: link.stacks for rank, link in links.items()})

    def _run_on(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._all_ended():
            self._board.step(min(left, _TICK))

    def _stop_ranks(self, number: int, patience: float) -> list[int]:
        """Ask the ranks to end, then kill those that do not; returns these."""
        self._send(number)
        end = time.monotonic() + patience
        while self._running() and time.monotonic() < end:
            self._board.step(_TICK)
            if any(order in (signal.SIGINT, signal.SIGTERM) for order in self._orders):
                break  # asked twice
        late = self._running()
        self._send(signal.SIGKILL)
        self._run_on(_KILL_SECONDS)
        return late

    def _leave(self, process: subprocess.Popen[bytes]) -> None:
        """Let supervisors go, and wait until the launcher of MPI has followed them."""
        for link in self._board.links.values():
            link.leave()
        end = time.monotonic() + _LEAVE_SECONDS
        while process.poll() is None and time.monotonic() < end:
            self._board.step(0.02)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Leave nothing running."""
        if process.poll() is None:
            self._leave(process)
        for end in (process.terminate, process.kill):
            if process.poll() is None:
                end()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)
        for link in self._board.links.values():
            link.kill()
        while self._board.step(0.0):
            pass
        if process.stdout is not None:
            self._board.stop_listening(process.stdout.fileno())
            process.stdout.close()
