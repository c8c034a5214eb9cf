"""All processes of one side in one world: started, asked, and stopped together."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from contest.profile import Profile, Spent
from contest.task import Task
from contest.trainee import Lap
from shardwise.launch.cores import THREAD_VARIABLES, find_cores

__all__ = ["Side", "Team", "TeamError"]

Side = Literal["ours", "torch"]

_START = 300.0  # seconds: the first run on a machine compiles kernels
_ANSWER = 600.0
_STOP = 30.0
_RUN = "import sys; from shardwise.launch.cli import main; sys.exit(main())"


class TeamError(RuntimeError):
    """A team did not start, ended early, or did not answer in time."""


class Team:
    """One side's world of processes, each on a core of its own, with one thread for BLAS.

    Ours of several ranks start as users start theirs, by ``shardwise run``.

    Parameters
    ----------
    side : "ours" or "torch"
    task : Task
        The size of its batch is that of one rank.
    size : int
        Number of ranks.
    cores : sequence of lists of int, optional
        Per rank, the cores to run on; those that another team reported, so that both run on the same.
        If not given, rank r gets the core r of this process, where there are enough and it may choose.

    Attributes
    ----------
    cores : list of lists of int
        Per rank, the cores that it runs on; empty lists where the system cannot tell.
    """

    def __init__(
        self, side: Side, task: Task, size: int = 1, cores: Sequence[list[int]] | None = None
    ) -> None:
        self.side, self.task, self.size = side, task, size
        self._folder = Path(tempfile.mkdtemp(prefix="contest-"))
        self._output = (self._folder / "output").open("w+", encoding="utf-8")
        self._processes: list[subprocess.Popen[str]] = []
        self._lines: list[IO[str]] = []
        self.cores: list[list[int]] = []
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(self._folder / "socket"))
                listener.listen(size)
                self._start(cores)
                self._admit(listener)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self.side}, {self.size} rank{'s' if self.size > 1 else ''}"

    # ---- what it can be asked

    def steps(self, count: int, synchronised: bool = True) -> list[list[Lap]]:
        """Do `count` steps; return the laps of each rank."""
        answers = self._ask(do="steps", count=count, synchronised=synchronised)
        return [[Lap(*lap) for lap in laps] for laps in answers]

    def all_reduce(self, count: int) -> list[float]:
        """All-reduce as many numbers as there are gradients, `count` times; seconds of the slowest rank."""
        return [max(seconds) for seconds in zip(*self._ask(do="all_reduce", count=count), strict=True)]

    def product(self) -> float:
        """Multiply on all ranks at once; return the operations a second of the slowest."""
        rates: list[float] = self._ask(do="product")
        return min(rates)

    def profile(self, count: int) -> Profile:
        """Find out where `count` steps of ours, of one rank, spend their time."""
        [plain] = self._ask(do="profile", count=count)
        return Profile(tuple(Spent(**one) for one in plain.pop("spent")), **plain)

    def close(self) -> None:
        """Stop the processes and remove what they wrote; further calls do nothing."""
        for line in self._lines:
            with contextlib.suppress(OSError):
                print(json.dumps({"do": "stop"}), file=line, flush=True)
        deadline = time.monotonic() + (_STOP if self._lines else 0.0)
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            for end in (process.terminate, process.kill):  # the launcher ends its ranks when it can
                if process.poll() is None:
                    end()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_STOP)
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.close()
        self._processes, self._lines = [], []
        self._output.close()
        for name in ("output", "socket", "meeting"):
            (self._folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _ask(self, **command: object) -> list[Any]:
        """Give one command to every rank, and return their answers in rank order."""
        for line in self._lines:
            print(json.dumps(command), file=line, flush=True)
        return [self._hear(line) for line in self._lines]

    # ---- starting

    def _start(self, cores: Sequence[list[int]] | None) -> None:
        worker = ["-m", "contest.worker", self.side, "--address", str(self._folder / "socket")]
        worker += ["--task", self.task.to_json()]
        if cores is None:
            found = find_cores()
            chosen = [[found.allowed[r % len(found.allowed)]] for r in range(self.size)]
            cores = chosen if found.pinnable else [[]] * self.size
        if self.side == "ours" and self.size > 1:
            everyone = sorted({core for some in cores for core in some})
            self._run([sys.executable, "-c", _RUN, "run", "-n", str(self.size), *worker], everyone)
            return
        for rank in range(self.size):
            place = [
                "--rank",
                str(rank),
                "--size",
                str(self.size),
                "--meeting",
                str(self._folder / "meeting"),
            ]
            self._run([sys.executable, *worker, *place], cores[rank])

    def _run(self, command: list[str], cores: list[int]) -> None:
        places = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        environ = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
        if sys.platform == "linux":
            # gloo looks its own host's name up, which fails where that is in no table.
            environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        with _on(cores):
            process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._processes.append(process)

    def _admit(self, listener: socket.socket) -> None:
        """Wait until every rank has connected and said which it is."""
        deadline = time.monotonic() + _START
        joined: dict[int, tuple[IO[str], list[int]]] = {}
        listener.settimeout(0.2)
        while len(joined) < self.size:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if any(process.poll() is not None for process in self._processes):
                    raise self._error("ended before it was ready") from None
                if time.monotonic() > deadline:
                    raise self._error(f"was not ready after {_START:.0f} s") from None
                continue
            connection.settimeout(_ANSWER)
            line = connection.makefile("rw", encoding="utf-8")
            connection.close()  # the file keeps it open
            self._lines.append(line)
            hello = self._hear(line)
            if hello["size"] != self.size:
                raise self._error(f"started worlds of {hello['size']}, wanted one of {self.size}")
            joined[hello["rank"]] = line, hello["cores"]
        self._lines = [joined[rank][0] for rank in range(self.size)]
        self.cores = [joined[rank][1] for rank in range(self.size)]

    def _hear(self, line: IO[str]) -> Any:
        try:
            text = line.readline()
        except TimeoutError:
            raise self._error(f"did not answer within {_ANSWER:.0f} s") from None
        except OSError as error:
            raise self._error(f"lost a rank: {error}") from error
        if not text:
            raise self._error("lost a rank")
        return json.loads(text)

    def _error(self, what: str) -> TeamError:
        for process in self._processes:  # what it has to say may still be on its way
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
        self._output.flush()
        said = (self._folder / "output").read_text(encoding="utf-8", errors="replace").strip()
        hint = "" if self.side == "ours" else "; --no-peer leaves the peer out"
        return TeamError(f"the team of {self} {what}{hint}. Its last output:\n{said[-3000:] or '(none)'}")


@contextlib.contextmanager
def _on(cores: Sequence[int]) -> Iterator[None]:
    """Let processes that are started in the block run on `cores` only; on all if there are none."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
