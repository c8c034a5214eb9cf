"""Processes that a rank forked: they have its memory, and so its world, but they are no ranks."""

from __future__ import annotations

import os
import weakref
from functools import partial

from shardwise.backend.errors import CollectiveError

__all__ = ["Origin"]


class Origin:
    """Knows whether this is still the process in which a world was made.

    Asking the system for the process's number would take as long as the rest of a small operation's checks.

    Parameters
    ----------
    size : int
        Of the world; a fork may use a world of one.

    Attributes
    ----------
    forked : bool
        Whether this process is a fork of the one that made the world.
    """

    __slots__ = ("__weakref__", "forked")

    def __init__(self, size: int) -> None:
        self.forked = False
        if size > 1:
            os.register_at_fork(after_in_child=partial(_note, weakref.ref(self)))

    def check(self, op: str, rank: int) -> None:
        """Refuse to communicate in a fork, which would speak and listen in place of the rank.

        Parameters
        ----------
        op, rank
            For the message.

        Raises
        ------
        CollectiveError
            This is another process.
        """
        if self.forked:
            raise CollectiveError(
                f"{op}: this process was forked from rank {rank} and is no rank itself. Communicate in the "
                "rank, and pass the result on; or start the process with the 'spawn' method of "
                "multiprocessing."
            )


def _note(origin: weakref.ref[Origin]) -> None:
    world = origin()
    if world is not None:
        world.forked = True
