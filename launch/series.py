"""A job and those that follow it: one that failed is started again, where that may help."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from shardwise.collectives import REQUEUE
from shardwise.launch.failure import SPEAKER, Verdict
from shardwise.launch.job import Job
from shardwise.launch.output import Screen
from shardwise.launch.plan import Plan

__all__ = ["Series", "why_not_again"]

_USAGE_ERROR = 2
_START_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_TICK = 0.05

# What another start would meet again.
_LASTING = frozenset({"ImportError", "SyntaxError"})


class Series:
    """The attempts at one job.

    Parameters
    ----------
    plan : Plan
        The first attempt's; the others differ in their ids.
    screen : Screen
        Where verdicts and messages go.
    restarts : int
        How many attempts may follow the first.
    make_job : callable
        Gives the job for a plan.
    """

    def __init__(self, plan: Plan, screen: Screen, *, restarts: int, make_job: Callable[[Plan], Job]) -> None:
        self._plan = plan
        self._screen = screen
        self._restarts = restarts
        self._make_job = make_job
        self._job: Job | None = None
        self._ordered = 0

    def order(self, number: int) -> None:
        """Take a signal that the launcher got; safe to call from a signal handler."""
        if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._ordered = number
        if self._job is not None:
            self._job.order(number)

    def run(self) -> Verdict:
        """Run the job until it ends well, or starting it again is of no use; prints the verdicts.

        Returns
        -------
        Verdict
            The last one.
        """
        pause = _FIRST_PAUSE
        for count in range(self._restarts + 1):
            job = self._job = self._make_job(self._attempt(count))
            if self._ordered:
                job.order(self._ordered)
            began = time.monotonic()
            verdict = job.run()
            self._job = None
            for line in verdict.lines:
                self._screen.say(line)
            if verdict.code == 0 or self._restarts == 0:
                break
            if self._ordered:
                break  # whoever stopped it does not want it back
            reason = why_not_again(verdict, self._plan.size, time.monotonic() - began)
            if count == self._restarts:
                reason = f"it has been {self._times()} already"
            if reason is not None:
                self._screen.say(f"{SPEAKER}: the job is not started again: {reason}")
                break
            self._screen.say(
                f"{SPEAKER}: the job failed with exit code {verdict.code}; it is started again in "
                f"{pause:g} s (restart {count + 1} of {self._restarts})"
            )
            self._wait(pause)
            if self._ordered:
                return Verdict(128 + self._ordered)
            pause = min(_LONGEST_PAUSE, 2 * pause)
        return verdict

    def _attempt(self, count: int) -> Plan:
        if count == 0:
            return self._plan
        ids = {"SHARDWISE_RESTART_COUNT": str(count), "SHARDWISE_RUN_ID": uuid.uuid4().hex[:12]}
        return replace(self._plan, environment={**self._plan.environment, **ids})

    def _times(self) -> str:
        return "once" if self._restarts == 1 else f"{self._restarts} times"

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._ordered:
            time.sleep(_TICK)


def why_not_again(verdict: Verdict, size: int, seconds: float) -> str | None:
    """Say why starting a failed job again would be of no use; None if it may help.

    Parameters
    ----------
    verdict : Verdict
    size : int
        Number of ranks.
    seconds : float
        How long the job ran.
    """
    root = verdict.root
    if verdict.timed_out:
        return "it took longer than --timeout allows"
    if root is None:
        return None if verdict.started else "its ranks could not be started"
    if root.kind == "failed" and not _LASTING.isdisjoint(root.bases):
        return f"{root.type} would be met again"
    if root.kind == "exiting" and root.code == _USAGE_ERROR:
        return "exit code 2 means that its arguments are wrong"
    if root.kind in ("exiting", "exit") and root.code == REQUEUE:
        return f"exit code {REQUEUE} asks the batch system to"
    if len(verdict.alike) == size and seconds < _START_SECONDS and root.kind in ("failed", "exiting"):
        return f"all of it failed alike within {_START_SECONDS:g} s of its start"
    return None
