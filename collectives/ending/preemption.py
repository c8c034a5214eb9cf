"""End a job in good order when the batch system wants its machines back."""

from __future__ import annotations

import signal
from collections.abc import Iterable

import numpy as np

from shardwise.collectives.context import get_world
from shardwise.collectives.form.symmetric import all_reduce

__all__ = ["REQUEUE", "preempted", "watch_preemption"]

REQUEUE = 75
"""Exit code by which a job asks to be started again later: EX_TEMPFAIL of sysexits.h. ``shardwise run``
passes it on, and does not start such a job again by itself."""


def watch_preemption(signals: Iterable[int] = (signal.SIGUSR1, signal.SIGTERM)) -> None:
    """Let `preempted` know of these signals, which then end nothing by themselves.

    Call it early and on every rank: until then, both signals kill the process.

    Parameters
    ----------
    signals : iterable of int
        By default SIGUSR1, which batch systems can be told to send ahead of a time limit, and SIGTERM, which
        they send ahead of a preemption.

    Notes
    -----
    A handler that the program had installed is called too. Ranks that are threads take no signals; there,
    only what `preempted` is told counts. `shutdown` gives the signals back.
    """
    get_world().notice.watch(signals)


def preempted(also: bool = False) -> bool:
    """Say whether the job is to end, alike on all ranks and at the same step.

    Signals reach ranks at different moments, and perhaps only some of them. All ranks ask once a step, and
    all hear yes in the first step in which one of them had been told.

    Parameters
    ----------
    also : bool
        A reason of this rank's own, such as a limit of time that has passed.

    Returns
    -------
    bool
        The same on all ranks.

    Raises
    ------
    CollectiveError
        As from any collective.

    Notes
    -----
    One all-reduce of a byte over all ranks. Watches for the signals if `watch_preemption` was not called.

    Examples
    --------
    >>> from shardwise.collectives import preempted
    >>> preempted(), preempted(also=True)
    (False, True)
    """
    world = get_world()
    watch_preemption()
    mine = np.array(also or world.notice.came, np.uint8)
    return bool(all_reduce(mine, op="max", group=world.everyone))
