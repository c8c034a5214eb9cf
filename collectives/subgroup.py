"""Groups by PyTorch's names: ranks within groups, and groups that part the world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardwise.backend.errors import CollectiveError
from shardwise.collectives.context import get_world
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.timeout import Timeout

__all__ = [
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]


def get_rank(group: ProcessGroup | None = None) -> int:
    """Give this rank's place in the group, by default in the world; -1 where it is not a member."""
    if group is None:
        return get_world().rank
    return -1 if group.rank is None else group.rank


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Give the number of ranks in the group, by default in the world; -1 where this one is not a member."""
    if group is None:
        return get_world().size
    return -1 if group.rank is None else group.size


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Give the global rank of a member, as ``group.global_rank(group_rank)``."""
    return group.global_rank(group_rank)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Give the place of a global rank in the group, as ``group.group_rank(global_rank)``."""
    return group.group_rank(global_rank)


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """Give the global ranks of the group, as ``list(group.ranks)``; by default of all."""
    return list((group or get_world().everyone).ranks)


def new_subgroups(
    group_size: int | None = None, group: ProcessGroup | None = None, timeout: Timeout | None = None
) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """Part a group into groups of `group_size` neighbours. Nothing is sent.

    Parameters
    ----------
    group_size : int, optional
        It divides the size of the group; by default the number of ranks on this host.
    group : ProcessGroup, optional
        By default all ranks.
    timeout : float or timedelta, optional
        Seconds that the new groups wait for an operation.

    Returns
    -------
    ProcessGroup, list of ProcessGroup
        The group that this rank is in, and all of them.

    Raises
    ------
    CollectiveError
        If `group_size` does not divide the size of the group, or this rank is not in the group.
    """
    world = get_world()
    group = group or world.everyone
    group.member("new_subgroups")
    size = world.local_size if group_size is None else group_size
    if size < 1 or group.size % size:
        raise CollectiveError(
            f"{group.where('new_subgroups')}: {group.size} ranks do not part into groups of {size}; "
            f"choose a group_size that divides {group.size}."
        )
    parts = [group.ranks[begin : begin + size] for begin in range(0, group.size, size)]
    groups = [world.new_group(part, timeout) for part in parts]
    return next(part for part in groups if part.rank is not None), groups


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Iterable[Iterable[int]], timeout: Timeout | None = None
) -> tuple[ProcessGroup | None, list[ProcessGroup]]:
    """Make several groups that have no rank in common. Nothing is sent.

    Parameters
    ----------
    ranks_per_subgroup_list : iterable of iterables of int
        The global ranks of each.
    timeout : float or timedelta, optional
        Seconds that the new groups wait for an operation.

    Returns
    -------
    ProcessGroup or None, list of ProcessGroup
        The group that this rank is in, if it is in one, and all of them.

    Raises
    ------
    CollectiveError
        If a rank is in two groups, or a group cannot be.
    """
    parts = [tuple(int(rank) for rank in ranks) for ranks in ranks_per_subgroup_list]
    world = get_world()
    seen: set[int] = set()
    for part in parts:
        for rank in part:
            if rank in seen:
                raise CollectiveError(
                    f"rank {world.rank}: new_subgroups_by_enumeration wants groups without a common rank; "
                    f"rank {rank} is in two of {[list(each) for each in parts]}."
                )
            seen.add(rank)
    groups = [world.new_group(part, timeout) for part in parts]
    return next((group for group in groups if group.rank is not None), None), groups


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] = (),
    timeout: Timeout | None = None,
) -> ProcessGroup | None:
    """Part a group as told, and give the part that this rank is in. Nothing is sent.

    Parameters
    ----------
    parent_pg : ProcessGroup, optional
        By default all ranks.
    split_ranks : sequence of sequences of int
        The members of each part: group ranks of `parent_pg`, as in PyTorch.
    timeout : float or timedelta, optional
        Seconds that the new groups wait for an operation.

    Returns
    -------
    ProcessGroup or None
        None where no part has this rank.

    Raises
    ------
    CollectiveError
        If a rank is in two parts, or not in the group.
    """
    parent = parent_pg or get_world().everyone
    parent.member("split_group")
    parts = [[parent.global_rank(rank) for rank in part] for part in split_ranks]
    return new_subgroups_by_enumeration(parts, timeout)[0]
