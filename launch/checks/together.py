"""What can only be seen with ranks: who is where, whether hosts are alike, whether they reach each other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardwise.backend.select import get_backend
from shardwise.collectives import World, all_gather_object, gather_object
from shardwise.collectives.blas import allowed_cores
from shardwise.collectives.control import ControlPlane
from shardwise.collectives.report.clock import clock_offsets
from shardwise.launch.checks.core import judge_affinity
from shardwise.launch.checks.device_speed import measure_devices
from shardwise.launch.checks.finding import Family, Finding, fail, merge_hosts, ok, warn
from shardwise.launch.checks.gpu import Devices, find_devices, has_gpu, judge_sharing
from shardwise.launch.checks.message_passing import judge_thread_level
from shardwise.launch.checks.speed import measure_speed
from shardwise.launch.checks.unit import time as spell_time
from shardwise.launch.checks.version import compare_versions, installed_versions

__all__ = ["judge_clocks", "judge_reach", "look_together"]

_SKEW = 1.0  # seconds between the clocks of hosts, above which file times and logs mislead
_ANSWER = 5.0  # seconds for another host to answer
_PING = "doctor"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What one rank knows of itself."""

    host: str
    hostname: str
    cores: list[int]
    versions: dict[str, str]
    level: str
    device: str


def look_together(
    world: World, local: Callable[[], list[Family]], begin: Callable[[str], None], *, quick: bool
) -> list[Family]:
    """Run the checks that need ranks, and those of each host on its first rank. All ranks call it.

    Parameters
    ----------
    world : World
    local : callable
        Runs the checks of this host.
    begin : callable
        Is told the name of each family before its checks run.
    quick : bool
        Leave large arrays out.

    Returns
    -------
    list of Family
        On rank 0; empty on the others.
    """
    begin("Ranks")
    control = world.control
    hosts = list(control.hosts) if control is not None else [world.hostname] * world.size
    first = {host: hosts.index(host) for host in reversed(hosts)}
    leaders = sorted(first.values())
    if control is not None:
        control.on(_PING, control.answer)
    facts = all_gather_object(_facts(world, hosts[world.rank]))
    mine = local() if world.rank in leaders else []
    seen = gather_object(mine)
    begin("Clocks and network between ranks")
    offsets = clock_offsets(time.time)
    unheard = _unheard(control, leaders) if world.rank in leaders and control is not None else []
    reached = gather_object(unheard)
    begin("Speed")
    ranks = _ranks_and_cores(facts)
    crowded = any(finding.status != "ok" for finding in ranks)
    speed = measure_speed(world, hosts, quick=quick, crowded=crowded)
    able = has_gpu() and get_backend("cuda").available()[0]
    speed += measure_devices(world, able=able, quick=quick)
    if seen is None or reached is None:
        return []
    names = _names([facts[rank] for rank in leaders])
    families = _merged(names, [seen[rank] for rank in leaders])
    versions = [facts[rank].versions for rank in leaders]
    alike = list(compare_versions(names, versions))
    network = [
        judge_clocks([names[leaders.index(rank)] for rank in leaders], [offsets[rank] for rank in leaders])
    ]
    if len(leaders) > 1:
        network.append(
            judge_reach(names, [[leaders.index(other) for other in reached[rank]] for rank in leaders])
        )
    together = [
        _world(world, names),
        *alike,
        judge_thread_level(facts[0].level) if facts[0].level else ok("thread level", "no MPI"),
        *ranks,
        judge_sharing([(rank, each.hostname, each.device) for rank, each in enumerate(facts)]),
    ]
    return [
        *families,
        Family("Ranks", tuple(together)),
        Family("Between ranks", (*network, *speed)),
    ]


def judge_clocks(hosts: Sequence[str], offsets: Sequence[float]) -> Finding:
    """Say whether the clocks of hosts agree; `offsets` in seconds against the first."""
    if len(hosts) == 1:
        return ok("clocks", "one host, one clock")
    apart = max(offsets) - min(offsets)
    what = f"at most {spell_time(apart)} apart" if apart else f"alike on {len(hosts)} hosts"
    if apart > _SKEW:
        wrong = hosts[max(range(len(hosts)), key=lambda i: abs(offsets[i]))]
        return warn(
            "clocks",
            f"{what}; {wrong} differs most",
            f"let {wrong} keep time: systemctl enable --now chronyd",
        )
    return ok("clocks", what)


def judge_reach(hosts: Sequence[str], unheard: Sequence[Sequence[int]]) -> Finding:
    """Say whether every host can call every other; `unheard` lists, per host, those that did not answer."""
    pairs = [f"{hosts[i]} to {hosts[j]}" for i, others in enumerate(unheard) for j in others]
    if pairs:
        return fail(
            "dial-back",
            f"no answer from {', '.join(pairs[:4])}"
            + (f" and {len(pairs) - 4} more" if len(pairs) > 4 else ""),
            "open TCP ports between these hosts (firewall), or name their common network by SHARDWISE_IFACE",
        )
    return ok("dial-back", f"each of {len(hosts)} hosts reaches every other")


def _facts(world: World, host: str) -> _Facts:
    versions = installed_versions() | {"interpreter": sys.executable}
    level = ""
    if world.transport.name == "mpi":
        level, library = _mpi_facts()
        versions["MPI"] = library
    devices = find_devices() if has_gpu() else Devices()
    if devices.names:
        versions |= {"driver": str(devices.driver), "NCCL": str(devices.nccl)}
    # As ranks take them: all see all devices of their host, or each sees its own alone.
    device = devices.ids[world.local_rank % len(devices.ids)] if devices.ids else ""
    return _Facts(host, world.hostname, allowed_cores(), versions, level, device)


def _mpi_facts() -> tuple[str, str]:
    from mpi4py import MPI

    levels = {
        MPI.THREAD_SINGLE: "single",
        MPI.THREAD_FUNNELED: "funneled",
        MPI.THREAD_SERIALIZED: "serialized",
        MPI.THREAD_MULTIPLE: "multiple",
    }
    library = MPI.Get_library_version().rstrip("\0").splitlines()[0]
    return levels[MPI.Query_thread()], " ".join(library.split())


def _unheard(control: ControlPlane, leaders: Sequence[int]) -> list[int]:
    others = [rank for rank in leaders if rank != control.rank]
    answers = control.ask(others, _PING, timeout=_ANSWER)
    return [rank for rank in others if rank not in answers]


def _names(leaders: Sequence[_Facts]) -> list[str]:
    """Give hosts of one name, as containers may be, numbers."""
    names = [each.hostname for each in leaders]
    return [f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names)]


def _merged(names: Sequence[str], seen: Sequence[Sequence[Family]]) -> list[Family]:
    return [
        Family(families[0].name, merge_hosts(names, [family.findings for family in families]))
        for families in zip(*seen, strict=True)
    ]


def _ranks_and_cores(facts: Sequence[_Facts]) -> list[Finding]:
    hosts: dict[str, list[_Facts]] = {}
    for each in facts:
        hosts.setdefault(each.host, []).append(each)
    return [judge_affinity([each.cores for each in ranks], ranks[0].hostname) for ranks in hosts.values()]


def _world(world: World, names: Sequence[str]) -> Finding:
    where = names[0] if len(names) == 1 else f"{len(names)} hosts: {', '.join(names)}"
    return ok("world", f"{world.size} ranks over {world.transport.name} on {where}")
