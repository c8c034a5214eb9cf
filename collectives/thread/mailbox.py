"""Messages between ranks of one process: kept for the receiver, in the order they were sent."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveMismatchError
from shardwise.collectives.tag import user_tag

__all__ = ["Mailbox", "Receipt"]

Key = tuple[int, int, int]  # sender, receiver, tag


class Receipt:
    """A receive that was posted: `arrived` once its buffer is filled, or `error` says why not."""

    __slots__ = ("arrived", "error", "key", "out")

    def __init__(self, key: Key, out: Array) -> None:
        self.key = key
        self.out = out
        self.arrived = threading.Event()
        self.error: str | None = None

    def fill(self, message: Array) -> None:
        """Take over the contents of `message`, if it fits."""
        src, dst, tag = self.key
        if message.dtype == self.out.dtype and message.size == self.out.size:
            np.copyto(self.out, message.reshape(self.out.shape))
        else:
            self.error = (
                f"rank {dst} receives {self.out.dtype}{list(self.out.shape)} from rank {src} "
                f"with tag {user_tag(tag)}, which sent {message.dtype}{list(message.shape)}; send and "
                f"receive the same shape and dtype."
            )
        self.arrived.set()

    def check(self) -> None:
        """Raise if the message did not fit."""
        if self.error is not None:
            raise CollectiveMismatchError(self.error)


class Mailbox:
    """Matches messages and receives of equal (sender, receiver, tag), first with first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: dict[Key, deque[Array]] = {}
        self._receipts: dict[Key, deque[Receipt]] = {}

    def send(self, x: Array, src: int, dst: int, tag: int) -> None:
        """Deliver `x`, or a copy of it to be kept until someone receives it."""
        key = (src, dst, tag)
        with self._lock:
            waiting = self._receipts.get(key)
            if not waiting:
                self._messages.setdefault(key, deque()).append(x.copy())
                return
            receipt = waiting.popleft()
        receipt.fill(x)

    def receive(self, out: Array, src: int, dst: int, tag: int) -> Receipt:
        """Post a receive; it may have been filled on return."""
        key = (src, dst, tag)
        receipt = Receipt(key, out)
        with self._lock:
            messages = self._messages.get(key)
            if not messages:
                self._receipts.setdefault(key, deque()).append(receipt)
                return receipt
            message = messages.popleft()
        receipt.fill(message)
        return receipt
