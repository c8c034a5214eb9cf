"""Jobs on hosts that are network namespaces of this machine. Only where somebody asks: ``make test-hosts``.

Making hosts changes the network of the machine for a while, so that plain ``pytest`` leaves this folder out.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.command import Ended, clean_environment, without_warning
from harness.hosts import Hosts, why_no_hosts
from shardwise.launch.command import mpi_command
from shardwise.launch.cores import find_cores
from shardwise.launch.host import Host
from shardwise.launch.mpi import find_mpi
from shardwise.launch.reach import Reach

LONGEST_SECONDS = 200.0


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    here = Path(__file__).parent
    named = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(here) for path in named) else True


@dataclass
class Running:
    """A job that was started on the first host."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    moment: Path

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until stdout has this text so often."""
        end = time.monotonic() + 30
        while self.out.read_text(errors="replace").count(text) < times:
            assert self.process.poll() is None, self.err.read_text()
            assert time.monotonic() < end, self.out.read_text() + self.err.read_text()
            time.sleep(0.05)

    def finish(self) -> Ended:
        """Wait for its end; seconds count from the moment that the script wrote down, or from this call."""
        start = time.time()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LONGEST_SECONDS)
        if self.moment.exists():
            start = float(self.moment.read_text())
        seconds = time.time() - start
        code = self.process.poll()
        if code is None:
            self.process.kill()
            self.process.wait()
        out, err = (path.read_text(errors="replace") for path in (self.out, self.err))
        assert code is not None, f"it did not end within {LONGEST_SECONDS:g} s:\n{out}\n{err}"
        return Ended(code, out, without_warning(err), seconds)


class Site:
    """Some hosts, and ways to start a script on them."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.names = hosts.names
        self.folder = folder
        self.script = folder / "script.py"
        self._count = 0

    def write(self, text: str) -> None:
        """Write the script that jobs run."""
        self.script.write_text(textwrap.dedent(text))

    def list_of(self, *counts: int) -> str:
        """Write the hosts as ``--hosts`` takes them, with these numbers of ranks."""
        return ",".join(f"{name}:{count}" for name, count in zip(self.names, counts, strict=False) if count)

    def run(
        self, *arguments: object, counts: tuple[int, ...] = (2, 2), stdin: str = "", **environ: str
    ) -> Running:
        """Start ``shardwise run`` on the first host, with the script of the site unless another is named."""
        words: list[object] = ["-m", "shardwise", "run", "--launch-agent", self.hosts.agent]
        if "--hostfile" not in arguments:
            words += ["--hosts", self.list_of(*counts)]
        target = () if any(str(each).endswith(".py") for each in arguments) else (self.script,)
        return self.start([sys.executable, *words, *arguments, *target], stdin, **environ)

    def mpiexec(self, *arguments: object, **environ: str) -> Running:
        """Start the script under plain mpiexec, two ranks on each of two hosts."""
        environ = {"OMP_NUM_THREADS": "1"} | environ
        reach = Reach(4, tuple(Host(name, 2) for name in self.names[:2]), "ssh", str(self.hosts.agent))
        exported = [*environ, "PATH", *(["PYTHONPATH"] if "PYTHONPATH" in os.environ else [])]
        program = (sys.executable, str(self.script), *map(str, arguments))
        command = mpi_command(find_mpi(), 4, program, find_cores().count, reach, exported)
        return self.start(command.argv, "", **environ, **command.environment)

    def start(self, command: object, stdin: str = "", **environ: str) -> Running:
        """Start any command on the first host."""
        assert isinstance(command, list | tuple)
        self._count += 1
        out, err, given = (self.folder / f"{self._count}.{end}" for end in ("out", "err", "in"))
        given.write_text(stdin)
        process = self.hosts.start(0, command, self.folder, out, err, clean_environment(**environ), given)
        return Running(process, out, err, self.folder / "moment")


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three hosts."""
    reason = why_no_hosts()
    if reason is not None:
        pytest.skip(reason)
    with Hosts(3, tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture
def site(hosts: Hosts, tmp_path: Path) -> Iterator[Site]:
    """The hosts, and a folder for what runs on them. What a test leaves running fails it."""
    yield Site(hosts, tmp_path)
    hosts.mend(1)
    left = hosts.left(20.0)
    hosts.kill()
    assert left == []
