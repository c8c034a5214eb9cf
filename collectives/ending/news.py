"""What ranks tell each other of their ends, and when a wait is in vain because of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection

from shardwise.backend.errors import CollectiveError, WorldAbortedError
from shardwise.collectives.control import ControlPlane, Peer
from shardwise.collectives.rank_list import rank_list

__all__ = ["News", "obituary"]

# Seconds.
_LAST_WORDS = 2.0  # in which what a rank sent before it left must arrive
_MERCY = 10.0  # in which a failed rank ends the job
_LEAVE_NEWS = 30.0  # that a rank that is done waits for the others before it says so
_LOOK = 1.0


class News:
    """The ends of ranks, as one of them hears of them.

    Parameters
    ----------
    plane : ControlPlane or None
        None in a world of one, where there is no news.
    """

    def __init__(self, plane: ControlPlane | None) -> None:
        self._plane = plane

    def tell_failure(self, when: float) -> None:
        """Tell all other ranks that this one has failed, without waiting."""
        if self._plane is not None:
            self._plane.tell("failed", when)

    def failures(self) -> dict[int, float]:
        """Give the other ranks that have told so, and when they failed."""
        if self._plane is None:
            return {}
        gone = self._plane.liveness.gone()
        return {rank: peer.when for rank, peer in gone.items() if peer.state == "failed"}

    def check(self, ranks: Collection[int]) -> None:
        """Raise if a wait is in vain: one of `ranks` has left, or any has died or failed.

        Raises
        ------
        WorldAbortedError
            Of the dead at once. A rank that failed ends this one too, so that only its own traceback is
            printed; it has some seconds for that.
        CollectiveError
            Of a rank that left, once all that it has sent must have arrived.
        """
        plane = self._plane
        if plane is None or not plane.liveness.news:
            return
        gone = plane.liveness.gone()
        failed = [rank for rank, peer in gone.items() if peer.state == "failed"]
        for rank, peer in gone.items():
            if peer.state == "dead" and not failed:  # the deaths of others follow a failure
                raise WorldAbortedError(f"rank {plane.rank} stopped waiting: {obituary(plane, rank, peer)}.")
            if peer.state == "failed" and peer.seconds > _MERCY:
                raise WorldAbortedError(f"rank {plane.rank} stopped waiting: rank {rank} has failed.")
            if peer.state == "left" and rank in ranks and peer.seconds > _LAST_WORDS:
                raise CollectiveError(
                    f"rank {plane.rank} waits for rank {rank}, which has left the world (it ended, or called "
                    f"shutdown) {peer.seconds:.0f} s ago; every rank must take part, in the same order."
                )

    def on_death(self, call: Callable[[str], None]) -> None:
        """Have `call` called when a rank dies that had not come to its end, with what is to be said of it."""
        plane = self._plane
        if plane is not None:
            plane.liveness.watch(
                lambda rank, peer: call(f"{obituary(plane, rank, peer)}.") if peer.state == "dead" else None
            )

    def leave(self) -> None:
        """Tell that this rank has come to its end, and wait until all have.

        Raises
        ------
        WorldAbortedError
            If one of them has died instead, or failed and has not ended the job.
        """
        plane = self._plane
        if plane is None:
            return
        plane.tell("left", time.time())
        tell = time.monotonic() + _LEAVE_NEWS
        while True:
            gone = plane.liveness.gone()
            failed = [rank for rank, peer in gone.items() if peer.state == "failed"]
            if failed and gone[failed[0]].seconds > _MERCY:
                raise WorldAbortedError(f"rank {plane.rank} is done, but rank {failed[0]} has failed.")
            dead = [rank for rank, peer in gone.items() if peer.state == "dead"]
            if dead and not failed:
                story = obituary(plane, dead[0], gone[dead[0]])
                raise WorldAbortedError(f"rank {plane.rank} is done, but {story}.")
            busy = [rank for rank in range(plane.size) if rank != plane.rank and rank not in gone]
            if not busy and not failed:
                break
            if time.monotonic() > tell:
                tell += 10 * _LEAVE_NEWS
                if all(rank in busy for rank in range(plane.rank)):  # of those that wait, one says so
                    sys.stderr.write(
                        f"shardwise: rank {plane.rank} is done and waits for {rank_list(busy)} to end\n"
                    )
            plane.liveness.wait(len(gone), _LOOK)
        plane.flush()


def obituary(plane: ControlPlane, rank: int, peer: Peer) -> str:
    """Say in one sentence which rank has died, where and how."""
    return f"rank {rank} on {plane.members[rank].hostname} has died: {peer.reason}"
