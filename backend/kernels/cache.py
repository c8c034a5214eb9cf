"""Where compiled kernels are kept, and how the ranks of one host share the work of compiling them."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["cache_directory", "candidate_roots", "compile_lock", "first_writable"]

_POLL_SECONDS = 0.02


def candidate_roots() -> tuple[Path, ...]:
    """Folders that may hold compiled kernels, best first.

    Beside the package (removed with it), then the user's cache folder, then a folder of the user's own
    in the system's temporary folder.
    """
    roots = [Path(__file__).parent / "__pycache__"]
    user_cache = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(user_cache):  # the XDG specification says to ignore relative ones
        roots.append(Path(user_cache) / "shardwise")
    else:
        with contextlib.suppress(RuntimeError):  # no HOME and no entry in the password file
            roots.append(Path.home() / ".cache" / "shardwise")
    roots.append(Path(tempfile.gettempdir()) / f"shardwise-{os.getuid()}")
    return tuple(roots)


def first_writable(roots: Sequence[Path], key: str) -> Path | None:
    """The folder ``fused-<key>`` in the first of `roots` that can be written, made if need be.

    Returns
    -------
    Path or None
        None if no root can be written; kernels are then compiled in every process.
    """
    for root in roots:
        folder = root / f"fused-{key}"
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            # Compiled code is loaded from here, so a folder that someone else owns or may write
            # (planted in a shared temporary folder) is not to be trusted.
            if not _is_private(folder) or not _is_private(root):
                continue
            # Permission bits do not tell the truth about read-only mounts and quotas: try it.
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


@functools.cache
def cache_directory(key: str) -> Path | None:
    """The folder in which this process keeps kernels compiled under `key`, chosen once."""
    return first_writable(candidate_roots(), key)


@contextlib.contextmanager
def compile_lock(path: Path, timeout: float) -> Iterator[bool]:
    """Hold the lock file at `path`, so that one process per host compiles and the others wait.

    Parameters
    ----------
    path : Path
        The lock file, made if it does not exist; the kernel of the system frees the lock when its
        holder dies.
    timeout : float
        Seconds to wait. After that, or where files cannot be locked (some network file systems), the
        block runs without the lock: the same kernel is then compiled twice, which only costs time.

    Yields
    ------
    bool
        Whether the lock is held.
    """
    try:
        file = open(path, "ab")  # noqa: SIM115 - closed below, after the block
    except OSError:
        yield False
        return
    with file:
        yield _acquire(file.fileno(), timeout)


def _acquire(descriptor: int, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        except OSError:
            return False
        else:
            return True


def _is_private(folder: Path) -> bool:
    """Whether only the folder's owner may write it, and that owner is this user or root."""
    status = os.stat(folder, follow_symlinks=False)
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and not others_write and status.st_uid in (os.getuid(), 0)
