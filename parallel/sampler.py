"""Which samples belong to this rank."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from shardwise import collectives
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.random import permutation
from shardwise.collectives import ProcessGroup, get_group, world_size

__all__ = ["DistributedSampler", "local_rows"]


class DistributedSampler:
    """Deal the indices of a data set out to the ranks, as PyTorch's class of this name.

    Rank r gets positions r, r + n, r + 2n, ... of the (shuffled) indices, and every rank gets as
    many.

    Parameters
    ----------
    dataset : sized
        Only its length is looked at.
    num_replicas, rank : int, optional
        The world's, if not given.
    shuffle : bool
        Use a new order in each epoch, the same on all ranks.
    seed : int
        The same on all ranks.
    drop_last : bool
        If the length does not divide, leave the last few samples out; otherwise the first few
        are dealt out twice.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset = dataset
        self.num_replicas = world_size() if num_replicas is None else num_replicas
        self.rank = collectives.rank() if rank is None else rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        if not 0 <= self.rank < self.num_replicas:
            raise ArgumentError(
                f"DistributedSampler: rank must be in [0, num_replicas), got {self.rank} of "
                f"{self.num_replicas}"
            )
        if not len(dataset):
            raise ArgumentError("DistributedSampler: the data set is empty")

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next iteration; call it with the same number on all ranks."""
        self.epoch = epoch

    def __len__(self) -> int:
        n = len(self.dataset)
        return n // self.num_replicas if self.drop_last else -(-n // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            order = permutation(n, self.seed, self.epoch).tolist()
        else:
            order = list(range(n))
        total = len(self) * self.num_replicas
        while len(order) < total:  # more ranks than samples takes several rounds
            order += order[: total - len(order)]
        return iter(order[self.rank : total : self.num_replicas])


def local_rows(total: int, group: ProcessGroup | None = None) -> slice:
    """Return which rows of a global batch are this rank's: equal blocks, in the order of the ranks.

    Parameters
    ----------
    total : int
        Rows of the global batch.
    group : ProcessGroup, optional
        The world, if not given.

    Raises
    ------
    ShapeError
        The rows do not divide evenly over the group.
    """
    group = get_group() if group is None else group
    if group.rank is None:
        raise ShapeError(
            f"rank {group.transport.rank} is not in the group {list(group.ranks)}, so it has no rows of "
            "the batch"
        )
    if total < 1 or total % group.size:
        low = total // group.size * group.size
        raise ShapeError(
            f"a global batch of {total} rows does not divide over {group.size} ranks; "
            f"use {f'{low} or {low + group.size}' if low > 0 else group.size}"
        )
    rows = total // group.size
    return slice(group.rank * rows, (group.rank + 1) * rows)
