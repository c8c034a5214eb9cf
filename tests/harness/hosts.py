"""Hosts made of network namespaces on this machine: each has its own name, address and loopback.

They share the kernel, the file systems and the process numbers, so /dev/shm and the paths of unix sockets are
visible on all of them, as they would not be on real hosts. Names begin with ``swt`` and the number of the
process that made them; what a process that is gone has left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

__all__ = ["Hosts", "why_no_hosts"]

_NAMES = Path("/etc/netns")
_AGENT = """#!/bin/bash
# Stands in for ssh: its options are dropped, the first word is the host, the rest is for a shell there.
while [[ "$1" == -* ]]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare --uts bash -c 'hostname "$0"; eval "$1"' "$host" "$*"
"""


def why_no_hosts() -> str | None:
    """Say why no hosts can be made here; None where they can."""
    if os.getuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "there is no ip or no unshare (apt-get install iproute2 util-linux)"
    name = f"swt{os.getpid()}try"
    for command in (["add", name], ["exec", name, "unshare", "--uts", "true"], ["del", name]):
        done = subprocess.run(["ip", "netns", *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
            return f"network namespaces cannot be made: {done.stderr.strip()}"
    return None


class Hosts:
    """Some hosts on one network. A context manager.

    Parameters
    ----------
    count : int
    folder : Path
        Where the agent is written.

    Attributes
    ----------
    names : list of str
    agent : Path
        A program that stands in for ssh.
    """

    def __init__(self, count: int, folder: Path) -> None:
        self.names = [f"swt{os.getpid()}h{number}" for number in range(count)]
        self.agent = folder / "agent"
        self._switch = f"swt{os.getpid()}s"

    def __enter__(self) -> Hosts:
        _remove_leftovers()
        self.agent.write_text(_AGENT)
        self.agent.chmod(0o755)
        try:
            self._make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def start(
        self,
        host: int,
        command: Sequence[object],
        folder: Path,
        out: Path,
        err: Path,
        environ: Mapping[str, str],
        stdin: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on a host, its output in files: what is left behind would keep a pipe open."""
        with open(out, "wb") as stdout, open(err, "wb") as stderr, open(stdin or os.devnull, "rb") as given:
            name = self.names[host]
            return subprocess.Popen(
                [
                    "ip",
                    "netns",
                    "exec",
                    name,
                    "unshare",
                    "--uts",
                    "bash",
                    "-c",
                    'hostname "$0"; exec "$@"',
                    name,
                ]
                + [str(word) for word in command],
                cwd=folder,
                env=dict(environ),
                stdin=given,
                stdout=stdout,
                stderr=stderr,
            )

    def cut(self, host: int) -> None:
        """Take the link of a host away."""
        _ip("-n", self.names[host], "link", "set", "eth0", "down")

    def mend(self, host: int) -> None:
        """Give the link of a host back."""
        _ip("-n", self.names[host], "link", "set", "eth0", "up")

    def pids(self, host: int) -> list[int]:
        """List the processes that run on a host."""
        done = subprocess.run(
            ["ip", "netns", "pids", self.names[host]], capture_output=True, text=True, check=False
        )
        return [int(word) for word in done.stdout.split()]

    def left(self, seconds: float) -> list[str]:
        """List what still runs on any host after so many seconds; empty as soon as nothing does."""
        end = time.monotonic() + seconds
        while True:
            pids = [pid for host in range(len(self.names)) for pid in self.pids(host)]
            if not pids or time.monotonic() > end:
                return [f"{pid}: {_command_line(pid)}" for pid in pids]
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill everything that runs on the hosts."""
        for host in range(len(self.names)):
            for pid in self.pids(host):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """Remove the hosts with all that runs there; safe to repeat."""
        self.kill()
        for name in (*self.names, self._switch):
            _remove(name)

    def _make(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "br0", "up")
        addresses = {name: f"10.77.0.{number}" for number, name in enumerate(self.names, start=1)}
        table = "127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in addresses.items()
        )
        for number, (name, address) in enumerate(addresses.items()):
            _ip("netns", "add", name)
            (_NAMES / name).mkdir(parents=True, exist_ok=True)
            (_NAMES / name / "hosts").write_text(table)
            port = f"port{number}"
            _ip(
                "link",
                "add",
                port,
                "netns",
                self._switch,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            _ip("-n", self._switch, "link", "set", port, "master", "br0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _remove(name: str) -> None:
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    shutil.rmtree(_NAMES / name, ignore_errors=True)


def _remove_leftovers() -> None:
    """Remove hosts of processes that are gone."""
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        match = re.match(r"(swt(\d+)\w+)", line)
        if match is None or Path("/proc", match[2]).exists():
            continue
        pids = subprocess.run(["ip", "netns", "pids", match[1]], capture_output=True, text=True, check=False)
        for pid in pids.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _remove(match[1])


def _command_line(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "(gone)"
