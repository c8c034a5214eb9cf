"""One ``mpiexec -n N`` of test ranks, as the parent sees it."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.merge import rank_list
from harness.rank import STACKS_SIGNAL
from harness.wire import Message, Wire
from shardwise.launch.command import RANK_VARIABLES, mpi_command
from shardwise.launch.cores import THREAD_VARIABLES, find_cores
from shardwise.launch.mpi import MpiInstallation

__all__ = ["BrokenWorldError", "Outcome", "World"]

START_SECONDS = 180.0
STOP_SECONDS = 60.0
STRAGGLER_SECONDS = 5.0
"""How long other ranks may still take once one has failed: they may wait for it for ever."""
DEATH_SECONDS = 1.0
"""How long to look on after a rank died: MPI is about to end the others."""


class BrokenWorldError(Exception):
    """The ranks could not be started, or do not fit together."""


@dataclass(slots=True)
class Outcome:
    """What came of one test.

    Attributes
    ----------
    reports : dict
        Of each rank that came back, its serialised reports.
    died : list of int
        Ranks whose process ended, in that order.
    stuck : dict
        Of each rank that neither came back nor died, the stacks of its threads.
    seconds : float
        Until the outcome was known.
    """

    reports: dict[int, list[Message]] = field(default_factory=dict)
    died: list[int] = field(default_factory=list)
    stuck: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether every rank came back."""
        return not self.died and not self.stuck


class World:
    """N ranks that wait for the names of tests.

    Parameters
    ----------
    size : int
        Number of ranks.
    mpi : MpiInstallation
        Which MPI starts them.
    arguments : sequence of str
        Arguments for pytest in the ranks.
    cwd : Path
        Where they run.
    """

    def __init__(self, size: int, mpi: MpiInstallation, arguments: Sequence[str], cwd: Path) -> None:
        self.size = size
        self._tests: frozenset[str] = frozenset()
        self._uncollected: dict[int, str] = {}
        self._wires: dict[int, Wire] = {}
        self._pids: dict[int, int] = {}
        self._ended: list[int] = []
        self._inbox: list[tuple[int, Message]] = []
        # A socket's path may hold 107 bytes, which a long TMPDIR would use up.
        base = None if len(tempfile.gettempdir()) < 60 else "/tmp"
        self._folder = Path(tempfile.mkdtemp(prefix="mpi-tests-", dir=base))
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self._folder / "socket"))
        self._server.listen(size)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        program = (sys.executable, "-P", "-m", "harness.rank", str(self._folder), RANK_VARIABLES[mpi.flavour])
        command = mpi_command(mpi, size, (*program, *arguments), find_cores().count)
        with open(self._folder / "log.mpiexec", "wb") as log:
            self._mpiexec = subprocess.Popen(
                command.argv,
                env={**_rank_environment(), **command.environment},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._gather()
        except BaseException:
            self.kill()
            raise

    def run(self, test: str, following: str | None, limit: float) -> Outcome:
        """Run one test on all ranks.

        Parameters
        ----------
        test, following : str
            Node ids in the ranks of this test, and of the next one (which decides what is torn down).
        limit : float
            Seconds that the test may take.

        Raises
        ------
        BrokenWorldError
            If the ranks did not collect the test.
        """
        if test not in self._tests:
            texts = "\n".join(f"--- rank {rank} ---\n{text}" for rank, text in self._uncollected.items())
            raise BrokenWorldError(f"the ranks did not collect {test}\n{texts}")
        outcome = Outcome()
        start = time.monotonic()
        deadline = start + limit
        for wire in self._wires.values():
            wire.send({"kind": "run", "test": test, "next": following, "limit": limit})
        while len(outcome.reports) < self.size and time.monotonic() < deadline:
            self._pump(deadline - time.monotonic())
            now = time.monotonic()
            for rank, message in self._take("done"):
                outcome.reports[rank] = message["reports"]
                if any(report["outcome"] == "failed" for report in message["reports"]):
                    deadline = min(deadline, now + STRAGGLER_SECONDS)
            if len(self._ended) > len(outcome.died):
                outcome.died = list(self._ended)
                deadline = min(deadline, now + DEATH_SECONDS)
            if self._mpiexec.poll() is not None and len(self._ended) == self.size:
                break
        outcome.stuck = self._stacks(set(self._wires) - set(outcome.reports))
        outcome.seconds = time.monotonic() - start
        return outcome

    def logs(self) -> list[tuple[str, str]]:
        """What mpiexec and the ranks wrote outside of tests: (who, last lines), silent ones left out."""
        names = ["mpiexec", *map(str, range(self.size))]
        texts = [(name, _tail(self._folder / f"log.{name}")) for name in names]
        return [(name if name == "mpiexec" else f"rank {name}", text) for name, text in texts if text]

    def stop(self) -> str | None:
        """End the ranks in order; returns what went wrong, if they did not end by themselves."""
        for wire in self._wires.values():
            wire.send({"kind": "stop"})
        problem = None
        try:
            code = self._mpiexec.wait(STOP_SECONDS)
            if code != 0:
                problem = f"the world of {self.size} ended with exit code {code}"
        except subprocess.TimeoutExpired:
            problem = f"the world of {self.size} did not end within {STOP_SECONDS:.0f} s after its last test"
            self._pump(0.0)
            for rank, text in self._stacks(set(self._wires)).items():
                problem += f"\n--- rank {rank} ---\n{text}"
        if problem is not None:
            problem += "".join(f"\n--- {who} wrote ---\n{text}" for who, text in self.logs())
        self.kill()
        return problem

    def kill(self) -> None:
        """End everything at once; safe to repeat."""
        for rank, pid in self._pids.items():
            # A rank that closed its connection may be gone, and its number given to another process.
            if rank in self._wires and self._mpiexec.poll() is None:
                _signal(pid, signal.SIGKILL)
        for patience, end in ((2.0, self._mpiexec.terminate), (3.0, self._mpiexec.kill)):
            try:
                self._mpiexec.wait(patience)
                break
            except subprocess.TimeoutExpired:
                end()
        self._mpiexec.wait()
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()
        self._selector.close()
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _gather(self) -> None:
        """Wait until all ranks have connected, agree on the world, and have collected the same tests."""
        deadline = time.monotonic() + START_SECONDS
        ready: dict[int, list[str]] = {}
        while len(ready) < self.size:
            if self._ended or self._mpiexec.poll() is not None or time.monotonic() > deadline:
                self._pump(DEATH_SECONDS)
                late = set(range(self.size)) - set(ready)
                logs = "".join(f"\n--- {who} wrote ---\n{text}" for who, text in self.logs())
                raise BrokenWorldError(
                    f"a world of {self.size} did not start: {rank_list(late)} not ready{logs}"
                )
            self._pump(0.5)
            for rank, message in self._take("started"):
                if (message["rank"], message["size"]) != (rank, self.size):
                    raise BrokenWorldError(
                        f"mpiexec started rank {rank} of {self.size}, but MPI says rank {message['rank']} of "
                        f"{message['size']}: this mpiexec and mpi4py's library belong to different MPIs"
                    )
            for rank, message in self._take("uncollected"):
                self._uncollected[rank] = message["text"]
            for rank, message in self._take("ready"):
                ready[rank] = message["tests"]
        self._tests = frozenset(ready[0])
        for rank, tests in ready.items():
            odd = sorted(self._tests.symmetric_difference(tests))
            if odd:
                raise BrokenWorldError(
                    f"rank {rank} and rank 0 collected different tests: {', '.join(odd[:5])}. "
                    "Collect in a fixed order (sort sets) and not by rank."
                )

    def _pump(self, seconds: float) -> None:
        """Wait for news from ranks, for a short while."""
        for key, _ in self._selector.select(max(0.0, min(seconds, 0.2))):
            if key.fileobj is self._server:
                connection, _ = self._server.accept()
                self._selector.register(connection, selectors.EVENT_READ, Wire(connection))
                continue
            wire: Wire = key.data
            messages = wire.receive()
            if messages is None:
                self._selector.unregister(key.fileobj)
                for rank in [rank for rank, known in self._wires.items() if known is wire]:
                    del self._wires[rank]
                    self._ended.append(rank)
                wire.close()
                continue
            for message in messages:
                if message["kind"] == "hello":
                    self._wires[message["rank"]] = wire
                    self._pids[message["rank"]] = message["pid"]
            rank = next(rank for rank, known in self._wires.items() if known is wire)
            self._inbox += [(rank, message) for message in messages]

    def _take(self, kind: str) -> list[tuple[int, Message]]:
        taken = [entry for entry in self._inbox if entry[1]["kind"] == kind]
        self._inbox = [entry for entry in self._inbox if entry[1]["kind"] != kind]
        return taken

    def _stacks(self, ranks: set[int]) -> dict[int, str]:
        """The stacks of all threads of `ranks`, which run or hang."""
        stacks = {}
        for rank in ranks:
            _signal(self._pids[rank], STACKS_SIGNAL)
        if ranks:
            time.sleep(0.5)
        for rank in sorted(ranks):
            stacks[rank] = _own_frames(_tail(self._folder / f"stacks.{rank}", 1000)) or "(it did not answer)"
        return stacks


def _rank_environment() -> dict[str, str]:
    tests = str(Path(__file__).resolve().parents[1])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    # More ranks than cores is the rule here; threads on top would only make it slower.
    return environment | dict.fromkeys(THREAD_VARIABLES, "1")


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _own_frames(stacks: str) -> str:
    """Cut stacks where pytest starts, and thread numbers: ranks at one place then read the same."""
    kept: list[str] = []
    inside_test = True
    for line in stacks.splitlines():
        if not line.startswith("  "):
            inside_test = True
            line = re.sub(r"[Tt]hread 0x[0-9a-f]+", "thread", line)
        elif f"{os.sep}_pytest{os.sep}" in line:
            inside_test = False
        if inside_test:
            kept.append(line)
    return "\n".join(kept)


def _tail(path: Path, lines: int = 80) -> str:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])
