"""How much memory a machine, or the container that this process is in, has left."""

from __future__ import annotations

from pathlib import Path

__all__ = ["memory_left"]

_GROUPS = Path("/sys/fs/cgroup")
# The limit and what is used, by the version of Linux's control groups.
_LIMITS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def memory_left(meminfo: Path = Path("/proc/meminfo"), groups: Path = _GROUPS) -> int | None:
    """Give the bytes that can be had without taking them from somebody; None if the system does not say.

    Reserving more would not fail: the system would end processes, perhaps others, to find the memory.
    """
    found: list[int] = []
    try:
        lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) << 10)
    except (OSError, ValueError, KeyError):
        pass
    places = [groups, *_own_groups(groups)]
    for place in places:
        for limit, used in _LIMITS:
            try:
                found.append(max(0, int((place / limit).read_text()) - int((place / used).read_text())))
            except (OSError, ValueError):  # no such file, or no limit ("max")
                continue
    return min(found, default=None)


def _own_groups(groups: Path) -> list[Path]:
    """The control groups of this process, outermost first."""
    try:
        line = Path("/proc/self/cgroup").read_text().splitlines()[0]
    except (OSError, IndexError):
        return []
    own = groups / line.rpartition(":")[2].lstrip("/")
    return [place for place in (own, *own.parents) if groups in place.parents]
