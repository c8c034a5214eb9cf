"""What the ranks of a host hand each other through the control plane: files of memory, under a name."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Mapping, Sequence

from shardwise.backend.errors import CollectiveError, CollectiveMismatchError
from shardwise.collectives.control import ControlPlane, Message
from shardwise.collectives.control.frame import JSON
from shardwise.collectives.rank_list import rank_list
from shardwise.collectives.shm import memory
from shardwise.collectives.shm.room import memory_left

__all__ = ["Handover", "Shared"]

_KIND = "shm"
_PATIENCE = 120.0  # seconds
_LAST_WORDS = 2.0  # seconds in which what a rank sent before its end must arrive
_LOOK = 0.1


class Handover:
    """One rank's side of all of them.

    Parameters
    ----------
    control : ControlPlane
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._changed = threading.Condition()
        self._came: dict[tuple[str, int], Message] = {}
        control.on(_KIND, self._take)

    def share(
        self, name: str, ranks: Sequence[int], nbytes: int, reason: str = "", asked: int = -1
    ) -> Shared:
        """Make `nbytes` of memory on each of `ranks`, zeros, and map those of all; all of them do.

        Parameters
        ----------
        name : str
            The same on all, and used once.
        ranks : sequence of int
            Global ranks on this host, with this one.
        nbytes : int
        reason : str
            Why this rank cannot, if it knows already.
        asked : int
            The bytes that the user wants of these; by default all.

        Raises
        ------
        CollectiveError
            If one of them has gone, or does not come.
        CollectiveMismatchError
            If they disagree on `nbytes`.
        """
        parts: dict[int, memory.Mapping] = {}
        descriptor, own = -1, self._control.rank
        try:
            if not reason:
                left = memory_left()
                if left is not None and nbytes * len(ranks) > left:
                    raise OSError(
                        errno.ENOMEM, f"{nbytes * len(ranks)} bytes for all ranks, and {left} are left"
                    )
                descriptor = memory.create(nbytes)
                parts[own] = memory.Mapping(descriptor, nbytes)
        except OSError as error:
            reason = f"rank {own}: {error}"
        try:
            said = self._tell(
                name,
                ranks,
                {"error": reason, "pid": os.getpid(), "nbytes": nbytes if asked < 0 else asked},
                descriptor,
            )
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        sizes = {rank: message.body["nbytes"] for rank, message in said.items()}
        try:
            if len(set(sizes.values())) > 1:
                raise CollectiveMismatchError(
                    f"ranks disagree on how much memory they share ({name}), in bytes by rank: {sizes}; "
                    f"all of them give the same shape and dtype."
                )
            for rank, message in said.items():
                if message.fds and rank != own:
                    parts[rank] = memory.Mapping(message.fds[0], nbytes)
        except OSError as error:
            reason = reason or f"rank {own}: {error}"
        finally:
            for message in said.values():
                for received in message.fds:
                    os.close(received)
        agreed = self._tell(f"{name} mapped", ranks, {"error": reason})
        reason = next((str(each.body["error"]) for each in agreed.values() if each.body["error"]), "")
        pids = [int(str(said[rank].body["pid"])) for rank in ranks]
        return Shared([] if reason else [parts[rank] for rank in ranks], pids, reason)

    def tell(
        self, name: str, ranks: Sequence[int], facts: Mapping[str, str | int]
    ) -> dict[int, Mapping[str, JSON]]:
        """Tell all others, and give what each says, in the order of `ranks`; all of them do.

        Parameters and errors as for `share`.
        """
        return {rank: message.body for rank, message in self._tell(name, ranks, facts).items()}

    def _tell(
        self, name: str, ranks: Sequence[int], facts: Mapping[str, str | int], descriptor: int = -1
    ) -> dict[int, Message]:
        """Tell all others, and give what all say, in the order of `ranks`."""
        body = {"name": name, **facts}
        for rank in ranks:
            if rank != self._control.rank:
                self._control.send(rank, _KIND, body, fds=(descriptor,) if descriptor >= 0 else ())
        told: dict[int, Message] = {}
        deadline = time.monotonic() + _PATIENCE
        with self._changed:
            while True:
                missing = [
                    rank for rank in ranks if rank != self._control.rank and (name, rank) not in self._came
                ]
                if not missing:
                    break
                for rank in missing:
                    peer = self._control.peer(rank)
                    if peer.is_gone and peer.seconds > _LAST_WORDS:
                        how = (
                            "left the world (it ended, or called shutdown)"
                            if peer.state == "left"
                            else "died"
                        )
                        raise CollectiveError(
                            f"rank {self._control.rank} waits for rank {rank}, which has {how} "
                            f"{peer.seconds:.0f} s ago; every rank must take part, in the same order."
                        )
                if time.monotonic() > deadline:
                    raise CollectiveError(
                        f"rank {self._control.rank} waited {_PATIENCE:g} s for {rank_list(missing)} to "
                        f"share memory ({name}); all members of a group must use it, in the same order."
                    )
                self._changed.wait(_LOOK)
            for rank in ranks:
                if rank == self._control.rank:
                    told[rank] = Message(rank, _KIND, body, bytearray())
                else:
                    told[rank] = self._came.pop((name, rank))
        return told

    def _take(self, message: Message) -> None:
        with self._changed:
            self._came[str(message.body.get("name")), message.src] = message
            self._changed.notify_all()


class Shared:
    """What `Handover.share` has made: `parts` and `pids` by rank, or no parts and a reason."""

    def __init__(self, parts: list[memory.Mapping], pids: list[int], reason: str) -> None:
        self.parts = parts
        self.pids = pids
        self.reason = reason
