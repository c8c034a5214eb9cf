"""What links cost, measured for plans of redistributions and kept for later runs. All ranks take part."""

from __future__ import annotations

from shardwise.collectives import World, broadcast_object
from shardwise.dtensor.redistribute import LinkCosts, measure_link_costs, save_link_costs
from shardwise.launch.checks.finding import Finding, fail, ok
from shardwise.launch.checks.unit import rate as spell_rate
from shardwise.launch.checks.unit import time as spell_time

__all__ = ["calibrate", "judge_links"]


def calibrate(world: World, *, quick: bool) -> list[Finding]:
    """Measure, and have rank 0 write the file that `load_link_costs` reads. All ranks call it."""
    costs = measure_link_costs(quick=quick)
    told = None
    if world.rank == 0:
        try:
            told = ("", str(save_link_costs(costs)))
        except OSError as error:
            told = (str(error), "")
    reason, path = broadcast_object(told)
    return judge_links(costs, path, reason, hosts=len(set(world.hosts)), ranks=world.size)


def judge_links(costs: LinkCosts, path: str, error: str, *, hosts: int, ranks: int) -> list[Finding]:
    """Say what was measured, and where it is.

    Parameters
    ----------
    costs : LinkCosts
    path, error : str
        Where they were written, or why they were not.
    hosts, ranks : int
        How many there were.
    """
    found = []
    if ranks > hosts:
        found.append(ok("links inside a host", _spell(costs.latency, costs.hop, costs.bandwidth)))
    if hosts > 1:
        found.append(ok("links between hosts", _spell(costs.far_latency, costs.far_hop, costs.far_bandwidth)))
    if error:
        fix = "set XDG_CACHE_HOME to a folder that can be written"
        return [*found, fail("costs of links", f"not written: {error}", fix)]
    return [*found, ok("costs of links", f"{path}; plans use them after shardwise.dtensor.load_link_costs()")]


def _spell(latency: float, hop: float, bandwidth: float) -> str:
    return f"{spell_time(latency)} to begin, {spell_time(hop)} for each rank, {spell_rate(bandwidth)}"
