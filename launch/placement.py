"""How many ranks go to which host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from shardwise.backend.errors import LaunchError
from shardwise.launch.host import Host, host_list

__all__ = ["place"]


def place(
    hosts: Sequence[Host], n: int | None, source: str, *, oversubscribe: bool = False
) -> tuple[Host, ...]:
    """Give each host its ranks: the first ranks to the first host, and so on.

    Parameters
    ----------
    hosts : sequence of Host
        In order; at least one.
    n : int or None
        Number of ranks; None for as many as the hosts are meant for, one each where nobody said.
    source : str
        What named the hosts, for messages.
    oversubscribe : bool
        Whether more ranks than the hosts are meant for are.

    Returns
    -------
    tuple of Host
        Those that get ranks, with their number as `slots`.

    Raises
    ------
    LaunchError
        If there is no room for `n` ranks.

    Examples
    --------
    >>> host_list(place([Host("a", 2), Host("b", 2)], 3, "--hosts"))
    'a:2,b:1'
    >>> host_list(place([Host("a"), Host("b")], 6, "--hosts"))
    'a:3,b:3'
    """
    slots = [host.slots for host in hosts]
    known = [count for count in slots if count is not None]
    if len(known) < len(slots):
        known = _share(n or len(hosts), [1] * len(hosts))
    room = sum(known)
    count = room if n is None else n
    cores = [host.cores for host in hosts if host.cores is not None]
    if count <= room:
        until = [min(total, count) for total in accumulate(known)]
        ranks = [end - start for start, end in zip([0, *until], until, strict=False)]
    elif len(cores) == len(hosts) and count <= sum(cores):
        ranks = _share(count, cores)
    elif oversubscribe:
        ranks = _share(count, known)
    else:
        raise LaunchError(
            f"-n {count} is more than the {room} ranks that there is room for on {host_list(hosts)} "
            f"(from {source}): use -n {room}, name more, or --oversubscribe if you mean it"
        )
    return tuple(Host(host.name, own, host.cores) for host, own in zip(hosts, ranks, strict=True) if own)


def _share(n: int, weights: Sequence[int]) -> list[int]:
    """Split `n` in proportion to `weights`, in whole numbers, the first ones rather a little more."""
    until = [-(-n * total // sum(weights)) for total in accumulate(weights)]
    return [end - start for start, end in zip([0, *until], until, strict=False)]
