"""Regions of symmetric memory: one part on every rank of a group on one host, which all of them map."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import CollectiveError, CollectiveTimeoutError
from shardwise.collectives.shm import place
from shardwise.collectives.shm.handover import Shared
from shardwise.collectives.shm.patience import Patience
from shardwise.collectives.shm.ring import Ring

__all__ = ["Regions", "Signals"]

_PAGE = 4096
_SPIN, _YIELDS, _SLEEP = 1000, 50, 20_000_000
_ALERT = 200e-6  # seconds of waiting for a signal before this rank sleeps


class Signals(Protocol):
    """The compiled calls for signals."""

    @property
    def put_signal(self) -> Callable[..., int]: ...
    @property
    def await_signal(self) -> Callable[..., int]: ...


class Share(Protocol):
    """Makes memory on all ranks of the group."""

    def __call__(self, name: str, *, nbytes: int, asked: int) -> Shared: ...


class Regions:
    """Makes the regions of one ring.

    Parameters
    ----------
    ring : Ring
    signals : Signals
    patience : Patience
    share : callable
    name : str
        Of the group.
    """

    def __init__(self, ring: Ring, signals: Signals, patience: Patience, share: Share, name: str) -> None:
        self._ring = ring
        self._signals = signals
        self._patience = patience
        self._share = share
        self._name = name
        self._made = 0

    def empty(self, shape: Shape, dtype: np.dtype[Any], where: str) -> Array:
        """Make a region, and give this rank's part of it as an array; all ranks do.

        Raises
        ------
        CollectiveError
            If one of them does not have the memory; on all.
        CollectiveMismatchError
            If they disagree on how much it is.
        """
        nbytes = math.prod(shape) * dtype.itemsize
        room = -(-max(nbytes, 1) // _PAGE) * _PAGE
        signals = self._ring.size * place.SIGNAL_CHANNELS * place.SIGNAL_CELL
        self._made += 1
        shared = self._share(f"region {self._made} of {self._name}", nbytes=room + signals, asked=nbytes)
        if not shared.parts:
            raise CollectiveError(
                f"{where}: there is not enough shared memory for {nbytes} bytes on each rank: "
                f"{shared.reason}. Give the container or the job more memory, or use ordinary arrays."
            )
        self._ring.add_region(shared.parts)
        own: Array = shared.parts[self._ring.rank].bytes()[:nbytes].view(dtype).reshape(shape)
        return own

    def buffer(self, x: Array, rank: int, where: str) -> Array:
        """Give the array of another rank that lies where `x` lies on this one."""
        number, offset = self._find(x, where)
        if rank == self._ring.rank:
            return x
        part = self._ring.others_parts(number)[rank - (rank > self._ring.rank)]
        theirs: Array = part.bytes()[offset : offset + x.nbytes].view(x.dtype).reshape(x.shape)
        return theirs

    def put_signal(self, x: Array, rank: int, channel: int, where: str) -> None:
        """Signal to a rank, which takes it by `wait_signal`."""
        number, _ = self._find(x, where)
        self._signals.put_signal(self._ring.state, self._cell(number, rank, self._ring.rank, channel))

    def wait_signal(self, x: Array, rank: int, channel: int, timeout: float, where: str) -> None:
        """Wait for a signal of a rank, and take it.

        Raises
        ------
        CollectiveTimeoutError
            If none has come in time.
        """
        number, _ = self._find(x, where)
        cell, began = self._cell(number, self._ring.rank, rank, channel), time.monotonic()
        alert = self._signals.await_signal(self._ring.state, cell, self._patience.spin, _YIELDS, 0)
        while not alert:
            waited = time.monotonic() - began
            if waited > timeout:
                raise CollectiveTimeoutError(f"{where} did not come within {timeout:g} s.")
            self._patience.ask()
            sleep = 0 if waited < _ALERT else _SLEEP
            alert = self._signals.await_signal(self._ring.state, cell, 0, _YIELDS, sleep)

    def _find(self, x: Array, where: str) -> tuple[int, int]:
        found = self._ring.find_region(x.ctypes.data, x.nbytes) if x.flags.c_contiguous else None
        if found is None:
            raise CollectiveError(
                f"{where}: the array is not in symmetric memory of this group; make it by "
                f"empty_symmetric(shape, dtype, group)."
            )
        return found

    def _cell(self, number: int, receiver: int, sender: int, channel: int) -> int:
        signals = self._ring.size * place.SIGNAL_CHANNELS * place.SIGNAL_CELL
        begin, nbytes = self._ring.part(number, receiver)
        return begin + nbytes - signals + (sender * place.SIGNAL_CHANNELS + channel) * place.SIGNAL_CELL
