"""Processes that a rank forked: they have its memory, and so its world, but they are no ranks."""

from __future__ import annotations

import os

from shardwise.backend.errors import CollectiveError

__all__ = ["check_process", "process_of"]


def process_of(size: int) -> int:
    """Give what `check_process` compares with: this process, or 0 in a world of one, which a fork may use."""
    return os.getpid() if size > 1 else 0


def check_process(pid: int, op: str, rank: int) -> None:
    """Refuse to communicate in a fork, which would speak and listen in place of the rank.

    Parameters
    ----------
    pid : int
        As `process_of` gave it where the world was made.
    op, rank
        For the message.

    Raises
    ------
    CollectiveError
        This is another process.
    """
    if pid and os.getpid() != pid:
        raise CollectiveError(
            f"{op}: this process was forked from rank {rank} and is no rank itself. Communicate in the rank, "
            "and pass the result on; or start the process with the 'spawn' method of multiprocessing."
        )
