"""Arrays that all ranks of a group can reach: collectives on them copy nothing, and peers can read and write.

Ranks of one host map each other's memory; those that are threads of one process have it anyway. A collective
finds out by itself that its arrays lie there.
"""

from __future__ import annotations

import operator

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import CollectiveError, DTypeError
from shardwise.collectives.context import entered_group
from shardwise.collectives.form.barriers import barrier
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.ledger import implicit
from shardwise.collectives.shm import place
from shardwise.collectives.shm.channel import ShmChannel
from shardwise.collectives.shm.region import Regions
from shardwise.collectives.thread.symmetric import ThreadRegions
from shardwise.collectives.thread.transport import ThreadsChannel
from shardwise.tensor import Tensor

__all__ = ["SymmetricMemory", "empty_symmetric", "shares_memory"]


def empty_symmetric(
    shape: Shape | int, dtype: DTypeLike = np.float32, group: ProcessGroup | None = None
) -> Array:
    """Make an array in memory that all ranks of the group map, where they are on one host.

    All members call it, in the same order. The memory is this rank's: it is freed when the last array over it
    goes, whatever the others do.

    Parameters
    ----------
    shape : tuple of int or int
        The same on all ranks.
    dtype : dtype
        The same size on all ranks; no Python objects.
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    array
        Zeros at first. A collective of this group whose arrays lie in such memory on all ranks, as a whole or
        as contiguous parts, copies nothing. Where the ranks do not share memory it is an ordinary array.

    Raises
    ------
    CollectiveError
        If a rank does not have the memory, on all ranks; or this rank is not in the group.
    CollectiveMismatchError
        If ranks ask for different sizes.
    DTypeError
        If the dtype holds Python objects.

    Notes
    -----
    The ranks wait for each other; the files of the memory go through the control plane.
    """
    group = entered_group(group, "empty_symmetric")
    sizes = (operator.index(shape),) if isinstance(shape, int) else tuple(map(operator.index, shape))
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise DTypeError(
            f"{group.where('empty_symmetric')}: dtype {kind} holds Python objects, which cannot be shared."
        )
    _connect(group)
    regions = _regions(group)
    if regions is None:
        return np.zeros(sizes, kind)
    return regions.empty(sizes, kind, group.where("empty_symmetric"))


def shares_memory(group: ProcessGroup | None = None) -> bool:
    """Say whether the ranks of a group share memory, so that `empty_symmetric` is more than an array.

    All members get the same answer. The first question makes the channel of the group, so all of them ask.
    """
    group = entered_group(group, "shares_memory")
    _connect(group)
    return _regions(group) is not None


class SymmetricMemory:
    """The arrays that lie in one place on all ranks of a group.

    Parameters
    ----------
    x : array or Tensor
        From `empty_symmetric` of this group, or a contiguous part of such an array.
    group : ProcessGroup, optional
        By default all ranks.

    Attributes
    ----------
    array : array
        `x`, or the array of that Tensor.
    group : ProcessGroup
    rank, size : int
        Of the group.

    Raises
    ------
    CollectiveError
        If `x` does not lie in such memory.

    Notes
    -----
    Nothing here keeps ranks from reading what another is writing; `barrier` and the signals do.

    Examples
    --------
    Every rank writes into the memory of the next one, and says so:

    >>> from shardwise.collectives import SymmetricMemory, empty_symmetric, run_threads
    >>> def work(rank):
    ...     x = empty_symmetric(2)
    ...     memory = SymmetricMemory(x)
    ...     memory.buffer((rank + 1) % 3)[0] = rank
    ...     memory.put_signal((rank + 1) % 3)
    ...     memory.wait_signal((rank - 1) % 3)
    ...     return x.tolist()
    >>> run_threads(work, 3)
    [[2.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    """

    def __init__(self, x: Array | Tensor, group: ProcessGroup | None = None) -> None:
        self.group = entered_group(group, "SymmetricMemory")
        try:
            regions = _regions(self.group)
        except CollectiveError as error:  # nothing was made in it so far
            raise CollectiveError(
                f"{self.group.where('SymmetricMemory')}: the array is not in symmetric memory of this group; "
                f"make it by empty_symmetric(shape, dtype, group)."
            ) from error
        if regions is None:
            raise CollectiveError(
                f"{self.group.where('SymmetricMemory')}: its ranks do not share memory: they are not on one "
                f"host, or the environment says SHARDWISE_SHM=0."
            )
        x = x.data if isinstance(x, Tensor) else x
        self._regions = regions
        self.array = x
        self.rank = self.group.member("SymmetricMemory")
        self.size = self.group.size
        regions.buffer(x, self.rank, self.group.where("SymmetricMemory"))

    def __repr__(self) -> str:
        return f"SymmetricMemory({self.array.dtype}{list(self.array.shape)}, {self.group!r})"

    def buffer(self, rank: int) -> Array:
        """Give the array of a rank of the group, of the same shape and dtype, to read and to write."""
        return self._regions.buffer(self.array, self._peer(rank, "buffer"), self.group.where("buffer"))

    def barrier(self, timeout: float | None = None) -> None:
        """Wait until all ranks of the group have called it; what they wrote before can be read after."""
        barrier(self.group, timeout)

    def put_signal(self, dst: int, channel: int = 0) -> None:
        """Signal to a rank of the group, without waiting; what this rank wrote before can be read after it.

        Parameters
        ----------
        dst : int
            Rank in the group.
        channel : int
            From 0 to 7.
        """
        self._check_channel(channel, "put_signal")
        self._regions.put_signal(
            self.array, self._peer(dst, "put_signal"), channel, self.group.where("put_signal")
        )

    def wait_signal(self, src: int, channel: int = 0, timeout: float | None = None) -> None:
        """Wait for the next signal of a rank of the group; each is taken once.

        Parameters
        ----------
        src : int
            Rank in the group.
        channel : int
            From 0 to 7.
        timeout : float, optional
            Seconds; by default that of the group.

        Raises
        ------
        CollectiveTimeoutError
            If none has come in time.
        """
        self._check_channel(channel, "wait_signal")
        peer = self._peer(src, "wait_signal")
        where = self.group.where(f"wait_signal(src={src}, channel={channel})")
        limit = self.group.timeout if timeout is None else timeout
        self._regions.wait_signal(self.array, peer, channel, limit, where)

    def _peer(self, rank: int, what: str) -> int:
        if not 0 <= operator.index(rank) < self.size:
            raise CollectiveError(
                f"{self.group.where(what)}: there is no rank {rank}; ranks of the group go from 0 to "
                f"{self.size - 1}."
            )
        return operator.index(rank)

    def _check_channel(self, channel: int, what: str) -> None:
        if not 0 <= operator.index(channel) < place.SIGNAL_CHANNELS:
            raise CollectiveError(
                f"{self.group.where(what)}: channel={channel}; choose one from 0 to "
                f"{place.SIGNAL_CHANNELS - 1}."
            )


def _connect(group: ProcessGroup) -> None:
    """Make the channel of the group, if it is not there; all members do."""
    with implicit():
        barrier(group)


def _regions(group: ProcessGroup) -> Regions | ThreadRegions | None:
    channel = group.channel
    return channel.regions if isinstance(channel, ShmChannel | ThreadsChannel) else None
