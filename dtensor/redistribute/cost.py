"""What a collective costs: seconds by latency, hops and bytes over the links between ranks.

The formulas are those of a ring: of n ranks each talks in n - 1 turns, whatever the algorithm that a
transport takes. They need not be right to the microsecond; they must put plans into the right order, and the
same on all ranks. So the numbers are constants, unless all ranks set others alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from weakref import WeakKeyDictionary

from shardwise.backend.errors import ArgumentError
from shardwise.collectives import World, get_world
from shardwise.mesh import DeviceMesh

__all__ = [
    "DEFAULT_COSTS",
    "Link",
    "LinkCosts",
    "host_key",
    "host_numbers",
    "link_costs",
    "set_link_costs",
    "using_link_costs",
]


@dataclass(frozen=True, slots=True)
class Link:
    """What lies between the ranks of a group.

    Attributes
    ----------
    latency : float
        Seconds to begin an operation.
    hop : float
        Seconds more for each further rank.
    bandwidth : float
        Bytes per second that one rank sends.
    """

    latency: float
    hop: float
    bandwidth: float

    def all_gather(self, nbytes: int, n: int) -> float:
        """Seconds to gather, where each rank has `nbytes` before."""
        return self.latency + (n - 1) * (self.hop + nbytes / self.bandwidth)

    def reduce_scatter(self, nbytes: int, n: int) -> float:
        """Seconds to reduce `nbytes` of each rank, of which each keeps a part."""
        return self.latency + (n - 1) * (self.hop + nbytes / n / self.bandwidth)

    def all_reduce(self, nbytes: int, n: int) -> float:
        """Seconds to reduce `nbytes` of each rank, which all get."""
        return self.latency + 2 * (n - 1) * (self.hop + nbytes / n / self.bandwidth)

    def all_to_all(self, nbytes: int, n: int) -> float:
        """Seconds to swap parts of the `nbytes` that each rank has."""
        return self.latency + (n - 1) * (self.hop + nbytes / n / self.bandwidth)

    def exchange(self, nbytes: float, n: int) -> float:
        """Seconds to send `nbytes` to some of the other ranks, in pieces that are packed one by one."""
        return 1.25 * self.latency + (n - 1) * self.hop + nbytes / self.bandwidth


@dataclass(frozen=True, slots=True)
class LinkCosts:
    """Latency and bandwidth of the links between ranks, inside a host and between hosts.

    Parameters
    ----------
    latency, far_latency : float
        Seconds to begin an operation of ranks on one host, and on several.
    hop, far_hop : float
        Seconds more for each further rank.
    bandwidth, far_bandwidth : float
        Bytes per second that one rank sends.

    Examples
    --------
    >>> costs = LinkCosts(latency=1e-5, bandwidth=1e9)
    >>> round(1e6 * costs.link(far=False).all_gather(1_000_000, 2), 3)
    1010.6
    """

    latency: float = 6.6e-6
    hop: float = 0.6e-6
    bandwidth: float = 5e9
    far_latency: float = 2e-5
    far_hop: float = 2.7e-6
    far_bandwidth: float = 1e9

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0 or value == float("inf"):
                raise ArgumentError(f"LinkCosts: {name}={value!r}; wanted a number above 0.")

    def link(self, far: bool) -> Link:
        """Give what lies between ranks of one host, or of several."""
        if far:
            return Link(self.far_latency, self.far_hop, self.far_bandwidth)
        return Link(self.latency, self.hop, self.bandwidth)


DEFAULT_COSTS: Final = MappingProxyType(
    {
        "cpu": LinkCosts(),
        "cuda": LinkCosts(6.6e-6, 0.6e-6, 87.7e9, 6.6e-6, 2.7e-6, 0.22 * 87.7e9),
    }
)
"""By type of device: shared memory and a network of 10 Gbit/s; NVLink and InfiniBand."""

_chosen: ContextVar[LinkCosts | None] = ContextVar("shardwise_link_costs", default=None)
_hosts: WeakKeyDictionary[World, tuple[tuple[int, ...], int]] = WeakKeyDictionary()
_keys: dict[tuple[int, ...], int] = {(): 0}  # one entry for each way that ranks lie on hosts


def set_link_costs(costs: LinkCosts | None) -> None:
    """Let plans in this context be made by these costs; None for the constants. All ranks set the same.

    Plans of layouts between which a plan was made by other costs are made anew.
    """
    _chosen.set(costs)


@contextmanager
def using_link_costs(costs: LinkCosts | None) -> Iterator[None]:
    """Let plans in a block be made by these costs; see `set_link_costs`."""
    token = _chosen.set(costs)
    try:
        yield
    finally:
        _chosen.reset(token)


def link_costs(mesh: DeviceMesh | None = None) -> LinkCosts:
    """Give the costs by which plans are made here, for arrays on the devices of a mesh."""
    return _chosen.get() or DEFAULT_COSTS["cpu" if mesh is None else mesh.device_type]


def host_numbers() -> tuple[int, ...]:
    """Give the number of the host of every rank of the world, the same on all ranks; empty for one host."""
    return _placing()[0]


def host_key() -> int:
    """Give a number that stands for `host_numbers`, which are many on a large world; 0 for one host."""
    return _placing()[1]


def _placing() -> tuple[tuple[int, ...], int]:
    world = get_world()
    found = _hosts.get(world)
    if found is None:
        order = {name: number for number, name in enumerate(dict.fromkeys(world.hosts))}
        numbers = tuple([order[name] for name in world.hosts]) if len(order) > 1 else ()
        found = _hosts[world] = numbers, _keys.setdefault(numbers, len(_keys))
    return found
