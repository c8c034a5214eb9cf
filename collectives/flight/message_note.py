"""What a rank sends is told beside it, in debug mode, and compared with what the other receives."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import CollectiveMismatchError
from shardwise.backend.source import source_line
from shardwise.collectives.control import JSON, ControlPlane, Message
from shardwise.collectives.tag import user_tag

__all__ = ["MessageNotes"]

T = TypeVar("T")

_KIND = "message note"
_PATIENCE = 2.0  # seconds for a note to come after its message; without it nothing is compared

_Key = tuple[int, int, int]  # the other rank, the tag on the wire, and the number of the message among those


class MessageNotes:
    """The notes of one rank: one for each message, over the control plane.

    Parameters
    ----------
    control : ControlPlane
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._lock = threading.Condition()
        self._sent: Counter[tuple[int, int]] = Counter()
        self._received: Counter[tuple[int, int]] = Counter()
        self._notes: dict[_Key, tuple[str, str]] = {}
        control.on(_KIND, self._came)

    def sent(self, dst: int, wire: int, x: Array) -> None:
        """Tell rank `dst` what `x` is, which is about to be sent."""
        with self._lock:
            number = self._sent[dst, wire]
            self._sent[dst, wire] += 1
        what = f"{x.dtype}{list(x.shape)}"
        note: dict[str, JSON] = {"wire": wire, "number": number, "what": what, "source": source_line(3)}
        self._control.send(dst, _KIND, note)

    def comparing(
        self, src: int, wire: int, dtype: np.dtype[Any], shape: Shape, wrap: Callable[[Array], T]
    ) -> Callable[[Array], T]:
        """Give `wrap` with a comparison before it, for the next message of `src` with this tag."""
        with self._lock:
            key = (src, wire, self._received[src, wire])
            self._received[src, wire] += 1
        wanted, source = f"{dtype}{list(shape)}", source_line(3)

        def compare(x: Array) -> T:
            with self._lock:
                self._lock.wait_for(lambda: key in self._notes, _PATIENCE)
                what, line = self._notes.pop(key, (wanted, ""))
            if what != wanted:
                raise CollectiveMismatchError(
                    f"rank {self._control.rank} receives {wanted} from rank {src} with tag {user_tag(wire)}, "
                    f"at {source}, which sent {what}, at {line}; send and receive the same shape and dtype."
                )
            return wrap(x)

        return compare

    def _came(self, message: Message) -> None:
        match message.body:
            case {"wire": int(wire), "number": int(number), "what": str(what), "source": str(source)}:
                with self._lock:
                    self._notes[message.src, wire, number] = (what, source)
                    self._lock.notify_all()
