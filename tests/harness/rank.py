"""What runs in each rank: an ordinary pytest session whose loop runs the tests that the parent names.

Started as ``mpiexec -n N python -m harness.rank FOLDER RANK_VARIABLE pytest-arguments...``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TextIO

import pytest

from harness.wire import Message, Wire

STACKS_SIGNAL = signal.SIGUSR1
"""Makes a rank write the stacks of its threads, even while it is stuck inside a C library."""


def main(argv: list[str]) -> int:
    """Run pytest as one rank of a world; returns its exit code."""
    folder, rank = Path(argv[0]), int(os.environ[argv[1]])
    # Before pytest saves file descriptors 1 and 2 for its capture: what is printed by a crash, by MPI or
    # outside of tests lands in a file per rank, not in the terminal.
    log = os.open(folder / f"log.{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    stacks_file = folder / f"stacks.{rank}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, open(stacks_file, "w") as stacks:
        connection.connect(str(folder / "socket"))
        wire = Wire(connection)
        wire.send({"kind": "hello", "rank": rank, "pid": os.getpid()})
        faulthandler.register(STACKS_SIGNAL, file=stacks, all_threads=True)
        arguments = [*argv[2:], f"--basetemp={folder / f'tmp.{rank}'}"]
        # What this rank's pytest has to say is said by the parent, for all ranks together.
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            code = pytest.main(arguments, plugins=[RankPlugin(wire, stacks)])
        faulthandler.unregister(STACKS_SIGNAL)
    return int(code)


class RankPlugin:
    """Runs the tests that the parent names and sends it their reports.

    Parameters
    ----------
    wire : Wire
        To the parent.
    stacks : text file
        Where to write the stacks if the parent is gone and a test does not end.
    """

    def __init__(self, wire: Wire, stacks: TextIO) -> None:
        self._wire = wire
        self._stacks = stacks
        self._config: pytest.Config | None = None
        self._reports: list[Message] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        """Start MPI before anything is collected, so that all ranks are in it together."""
        from mpi4py import MPI

        self._config = config
        self._wire.send({"kind": "started", "rank": MPI.COMM_WORLD.rank, "size": MPI.COMM_WORLD.size})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell the parent what could not be collected."""
        if report.failed:
            self._wire.send({"kind": "uncollected", "text": report.longreprtext})

    @pytest.hookimpl(optionalhook=True)
    def pytest_timeout_set_timer(self) -> bool:
        """Take over from pytest-timeout: the parent keeps the time, for all ranks together."""
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the reports of the test that runs now."""
        assert self._config is not None
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run what the parent names until it says stop."""
        items = {item.nodeid: item for item in session.items}
        self._wire.send({"kind": "ready", "tests": sorted(items)})
        while True:
            messages = self._wire.receive()
            if messages is None:
                # The parent is gone. MPI_Finalize, at a normal exit, would wait for ranks that may be stuck.
                os._exit(1)
            for message in messages:
                if message["kind"] == "stop":
                    return True
                self._run(session, items[message["test"]], items.get(message["next"]), message["limit"])

    def _run(
        self, session: pytest.Session, item: pytest.Item, following: pytest.Item | None, limit: float
    ) -> None:
        self._reports = []
        # The parent ends a test that takes too long; this ends the rank if the parent itself is gone.
        faulthandler.dump_traceback_later(limit + 60.0, exit=True, file=self._stacks)
        try:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        finally:
            faulthandler.cancel_dump_traceback_later()
        # Only the parent decides whether a failure stops the session (-x, --maxfail).
        session.shouldfail = False
        self._wire.send({"kind": "done", "test": item.nodeid, "reports": self._reports})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
