"""What is looked at on each host, in order: the families of checks that need no other rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType

from shardwise.launch.checks.core import check_cores
from shardwise.launch.checks.finding import Check, Family, Finding, fail
from shardwise.launch.checks.gpu import check_gpu
from shardwise.launch.checks.leftover import check_environment
from shardwise.launch.checks.limit import check_caches, check_limits, check_shared_memory, check_temporary
from shardwise.launch.checks.message_passing import check_mpi
from shardwise.launch.checks.network import check_network
from shardwise.launch.checks.version import check_versions, installed_versions

__all__ = ["LOCAL", "look"]


def _check_installed() -> Iterable[Finding]:
    return check_versions(installed_versions())


LOCAL: Mapping[str, tuple[Check, ...]] = MappingProxyType(
    {
        "Versions": (_check_installed,),
        "Environment": (check_environment,),
        "MPI": (check_mpi,),
        "Cores": (check_cores,),
        "Memory and files": (check_shared_memory, check_limits, check_caches, check_temporary),
        "Network": (check_network,),
        "GPU": (check_gpu,),
    }
)
"""The checks by family. A new check is one function, and one entry here."""


def look(families: Mapping[str, tuple[Check, ...]], begin: Callable[[str], None]) -> list[Family]:
    """Run all checks of some families.

    Parameters
    ----------
    families : mapping
        As `LOCAL`.
    begin : callable
        Is told the name of each family before its checks run.

    Returns
    -------
    list of Family
        A check that itself fails is a finding too.
    """
    found = []
    for name, checks in families.items():
        begin(name)
        found.append(Family(name, tuple(chain.from_iterable(_findings(check) for check in checks))))
    return found


def _findings(check: Check) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:  # whatever a strange machine brings: the other checks go on
        name = check.__name__.strip("_").removeprefix("check_").replace("_", " ")
        return [
            fail(
                name, f"the check itself failed: {type(error).__name__}: {error}", "report it, with this line"
            )
        ]
