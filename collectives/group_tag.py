"""Numbers for groups that are being made, so that those made at the same time do not meet.

MPI tells apart the groups that a rank makes at the same time by a tag. Ranks that make several in different
orders cannot count them alike, and a hash of the members in MPI's 15 bits may be that of another group. So
rank 0 counts for all: it gives every group the next number, and each of its members the same.
"""

from __future__ import annotations

import threading

from shardwise.backend.errors import CollectiveError
from shardwise.collectives.control import ControlPlane, Message

__all__ = ["GroupTags"]

_KIND = "group tag"
_TAGS = 1 << 15  # what every MPI takes; the same number comes again after so many groups
_PATIENCE = 60.0  # seconds for rank 0 to answer


class GroupTags:
    """The tags of a world's groups, asked of rank 0.

    Parameters
    ----------
    control : ControlPlane
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._count = 0
        self._given: dict[str, tuple[int, int]] = {}  # tag, and members that have not asked yet
        if control.rank == 0:
            control.on(_KIND, self._asked)

    def tag(self, ranks: tuple[int, ...], label: str) -> int:
        """Give the tag of a group, which every member asks for once.

        Raises
        ------
        CollectiveError
            If rank 0 does not answer.
        """
        name = f"{ranks}{label}"
        if self._control.rank == 0:
            return self._give(name, len(ranks))
        answers = self._control.ask([0], _KIND, {"group": name, "size": len(ranks)}, timeout=_PATIENCE)
        tag = answers[0].body.get("tag") if 0 in answers else None
        if not isinstance(tag, int):
            raise CollectiveError(
                f"rank {self._control.rank} cannot make the group of ranks {list(ranks)}: rank 0, which "
                f"numbers the groups, has not answered within {_PATIENCE:g} s."
            )
        return tag

    def _asked(self, message: Message) -> None:
        name, size = message.body.get("group"), message.body.get("size")
        if isinstance(name, str) and isinstance(size, int):
            self._control.answer(message, {"tag": self._give(name, size)})

    def _give(self, name: str, size: int) -> int:
        with self._lock:
            tag, left = self._given.pop(name, (self._count % _TAGS, size))
            if left == size:
                self._count += 1
            if left > 1:
                self._given[name] = (tag, left - 1)
            return tag
