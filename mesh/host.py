"""Which rank goes where in a mesh, so that what talks most stays inside a host; and what to do if it cannot.

The axis that runs fastest is the innermost one; tensor parallelism, which talks inside every layer, belongs
there. All of it is arithmetic on the list of hosts, which all ranks know alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from shardwise.mesh.argument import Names
from shardwise.mesh.grid import RankGrid

__all__ = ["PlacementWarning", "crossings", "host_advice", "host_order"]

HEAVY = "tp"
"""Name of the axis that belongs inside a host; of axes without names it is the last one."""


class PlacementWarning(UserWarning):
    """The axis of a mesh that talks most goes over the network."""


def host_order(hosts: Sequence[str], shape: Sequence[int]) -> list[int]:
    """Lay ranks out for a mesh, row by row, so that as many inner lines as can be are inside a host.

    Parameters
    ----------
    hosts : sequence of str
        The host of each rank; as many as the mesh has places.
    shape : sequence of int

    Returns
    -------
    list of int
        The rank of each place. In their own order, unless another one is better: where ranks were dealt out
        over hosts one by one, or hosts have numbers that the axes do not divide.

    Notes
    -----
    From the innermost axis outwards, what is on one host is put together in bundles of the axis's size;
    what remains on each host is bundled across hosts. The bundles are the elements of the next axis.

    Examples
    --------
    >>> host_order("abab", (2, 2))
    [0, 2, 1, 3]
    >>> host_order("aabb", (2, 2)), host_order("abab", (4,))
    ([0, 1, 2, 3], [0, 1, 2, 3])
    """
    plain = list(range(len(hosts)))
    units: list[tuple[list[int], str | None]] = [([rank], hosts[rank]) for rank in plain]
    for size in reversed(shape):
        units = _bundled(units, size)
    packed = [rank for unit, _ in units for rank in unit]
    return packed if crossings(packed, hosts, shape) < crossings(plain, hosts, shape) else plain


def crossings(order: Sequence[int], hosts: Sequence[str], shape: Sequence[int]) -> list[int]:
    """Count the blocks that are on several hosts: of the innermost axis, of the innermost two, and so on.

    Examples
    --------
    >>> crossings([0, 1, 2, 3], "abab", (2, 2)), crossings([0, 1, 2, 3], "aabb", (2, 2))
    ([2, 1], [0, 1])
    """
    counts = []
    for axis in reversed(range(len(shape))):
        block = math.prod(shape[axis:])
        starts = range(0, len(order), block)
        counts.append(sum(len({hosts[rank] for rank in order[at : at + block]}) > 1 for at in starts))
    return counts


def host_advice(hosts: Sequence[str], ranks: RankGrid, names: Names) -> str | None:
    """Say what to do about a heavy axis that crosses hosts; None where all is well.

    Parameters
    ----------
    hosts : sequence of str
        The host of each global rank.
    ranks : array of int64
        The mesh.
    names : tuple of str or None
        Of its axes. Heavy is the one named ``"tp"``, or the last one of several without names.
    """
    heavy = _heavy_axis(ranks.ndim, names)
    if heavy is None:
        return None
    size = ranks.shape[heavy]
    lines = np.moveaxis(ranks, heavy, -1).reshape(-1, size)
    crossing = sum(len({hosts[rank] for rank in line}) > 1 for line in lines.tolist())
    if not crossing:
        return None
    places = [hosts[rank] for rank in sorted(ranks.ravel().tolist())]
    most = max(Counter(places).values())
    axis = repr(HEAVY) if names else "the last axis"
    why = f"no host has more than {most} of its ranks" if size > most else "it would fit into a host"
    return (
        f"{axis}, of {size} ranks, crosses hosts in {crossing} of {len(lines)} groups, so what it sends goes "
        f"over the network: {why}. {_fitting(places, ranks.shape, names, heavy)}"
    )


def _heavy_axis(ndim: int, names: Names) -> int | None:
    if names is not None:
        return names.index(HEAVY) if HEAVY in names else None
    return ndim - 1 if ndim > 1 else None


def _fitting(places: Sequence[str], shape: Sequence[int], names: Names, heavy: int) -> str:
    """Name the nearest shape whose heavy axis stays inside hosts, that axis last."""
    size = shape[heavy]
    others = [n for axis, n in enumerate(shape) if axis != heavy] or [1]
    for part in range(size, 1, -1):
        wanted = (others[0] * (size // part), *others[1:], part)
        if size % part == 0 and not crossings(host_order(places, wanted), places, wanted)[0]:
            if names is None:
                return f"The shape {wanted} keeps it inside."
            kept = [name for name in names if name != HEAVY] or ["dp"]
            return f"The shape {wanted} with the axes {(*kept, HEAVY)} keeps it inside."
    return "Start as many ranks on every host, a multiple of the size of this axis, to keep it inside."


def _bundled(units: Sequence[tuple[list[int], str | None]], size: int) -> list[tuple[list[int], str | None]]:
    """Make bundles of `size` units: of one host as far as they go, then of what remains."""
    by_host: dict[str | None, list[list[int]]] = {}
    for unit, host in units:
        by_host.setdefault(host, []).append(unit)
    rest = by_host.pop(None, [])
    bundles: list[tuple[list[int], str | None]] = []
    for host, own in by_host.items():
        whole = len(own) // size * size
        bundles += [(_joined(own[at : at + size]), host) for at in range(0, whole, size)]
        rest += own[whole:]
    rest.sort()
    bundles += [(_joined(rest[at : at + size]), None) for at in range(0, len(rest), size)]
    return sorted(bundles, key=lambda bundle: bundle[0])


def _joined(units: Sequence[list[int]]) -> list[int]:
    return [rank for unit in units for rank in unit]
