"""What the system allows a process, and where memory and files are shared: limits, /dev/shm, caches."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from shardwise.backend.kernels.cache import candidate_roots, first_writable
from shardwise.launch.checks.finding import Finding, fail, ok, warn
from shardwise.launch.checks.unit import size

__all__ = [
    "check_caches", "check_limits", "check_shared_memory", "check_temporary", "judge_caches", "judge_limits",
    "judge_shared_memory",
]  # fmt: skip

_MIB = 1 << 20
_SHARED = Path("/dev/shm")
_ENOUGH_SHARED = 512 * _MIB
_ENOUGH_FILES = 1024
_ENOUGH_LOCKED = 64 * _MIB


def check_shared_memory() -> Iterator[Finding]:
    """Look at the memory that ranks of one host share."""
    if not _SHARED.is_dir():
        yield warn(
            "/dev/shm",
            "there is none: ranks of one host talk through MPI alone",
            "mount it: mount -t tmpfs -o size=1g tmpfs /dev/shm",
        )
        return
    usage = shutil.disk_usage(_SHARED)
    yield judge_shared_memory(usage.total, usage.free)


def judge_shared_memory(total: int, free: int) -> Finding:
    """Say whether /dev/shm, of so many bytes, is large enough."""
    what = f"{size(total)}, {size(free)} free"
    if total < _ENOUGH_SHARED:
        return warn(
            "/dev/shm",
            f"{what}: gradient buckets and MPI's own buffers may not fit (a container's default is 64 MiB)",
            "docker run --shm-size=2g, or --ipc=host; elsewhere mount -o remount,size=2g /dev/shm",
        )
    if free < _ENOUGH_SHARED // 2:
        return warn(
            "/dev/shm",
            f"{what}: almost full",
            "remove what jobs that were killed have left: ls -l /dev/shm, then rm your own files",
        )
    return ok("/dev/shm", what)


def check_limits() -> Iterator[Finding]:
    """Look at this process's limits (ulimit)."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    core = resource.getrlimit(resource.RLIMIT_CORE)[0]
    fabric = os.path.isdir("/sys/class/infiniband") and bool(os.listdir("/sys/class/infiniband"))
    yield from judge_limits(files, locked, core, fabric=fabric)


def judge_limits(files: tuple[int, int], locked: int, core: int, *, fabric: bool) -> Iterator[Finding]:
    """Say whether the limits are high enough.

    Parameters
    ----------
    files : (int, int)
        Open files, the soft and the hard limit.
    locked, core : int
        Bytes of locked memory and of a core file; -1 for no limit.
    fabric : bool
        Whether the host has InfiniBand or the like, which locks memory.
    """
    soft, hard = files
    if 0 <= soft < _ENOUGH_FILES:
        raised = (
            "ulimit -n 4096" if hard < 0 or hard >= 4096 else f"ulimit -n {hard}, or ask for a higher one"
        )
        yield warn("open files", f"at most {soft}: jobs with many ranks per host need more", raised)
    else:
        yield ok("open files", f"at most {_count(soft)}")
    if fabric and 0 <= locked < _ENOUGH_LOCKED:
        yield warn(
            "locked memory",
            f"at most {size(locked)}, and this host has InfiniBand, which then fails or is slow",
            "ulimit -l unlimited, or ask for memlock in /etc/security/limits.conf (in Slurm: LimitMEMLOCK)",
        )
    else:
        yield ok("locked memory", "not limited" if locked < 0 else f"at most {size(locked)}")
    yield ok(
        "core files", "not written" if core == 0 else "not limited" if core < 0 else f"at most {size(core)}"
    )


def check_caches() -> Iterator[Finding]:
    """Look for a folder that keeps compiled kernels."""
    yield judge_caches(candidate_roots())


def judge_caches(roots: Sequence[Path]) -> Finding:
    """Say which of some folders, best first, will keep compiled kernels."""
    folder = first_writable(roots, "doctor")
    if folder is None:
        return warn(
            "kernel cache",
            f"none of {', '.join(map(str, roots))} can be written: every process compiles for itself",
            "export XDG_CACHE_HOME=/a/folder/of/yours that can be written",
        )
    folder.rmdir()  # it was only tried
    root = folder.parent
    if len(roots) > 1 and root == roots[-1]:
        return warn(
            "kernel cache",
            f"only {root} can be written, which each host has for itself and may lose",
            "export XDG_CACHE_HOME=/a/folder/of/yours that can be written and that all hosts see",
        )
    return ok("kernel cache", str(root))


def check_temporary() -> Iterator[Finding]:
    """Look at the folder for sockets and other temporary files."""
    folder = Path(os.environ.get("TMPDIR") or "/tmp")
    if not os.access(folder, os.W_OK | os.X_OK):
        yield fail(
            "temporary files", f"{folder} cannot be written", "export TMPDIR=/a/folder/that/can/be/written"
        )
        return
    free = shutil.disk_usage(folder).free
    if free < 64 * _MIB:
        yield warn("temporary files", f"{folder} has {size(free)} left", "make room there, or export TMPDIR")
    elif len(str(folder)) > 80:  # a socket's path has at most 107 bytes
        yield warn(
            "temporary files",
            f"{folder} is so long that MPI's sockets may not fit into it",
            "export TMPDIR=/tmp, or another short path",
        )
    else:
        yield ok("temporary files", f"{folder}, {size(free)} free")


def _count(limit: int) -> str:
    return "any number" if limit < 0 else str(limit)
