"""Everything that comes from the ranks of a job, as it comes: connections, reports, output."""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import tempfile
from functools import partial
from pathlib import Path
from types import TracebackType

from shardwise.launch.link import RankLink
from shardwise.launch.output import Channel, Screen

__all__ = ["Switchboard"]

_BLOCK = 1 << 16
_KEPT = 1 << 14


class Switchboard:
    """Listens for the supervisors of ranks, and for their output. A context manager.

    Parameters
    ----------
    size : int
        Number of ranks to come.
    screen : Screen
        Where output goes.
    log_dir : Path, optional
        A folder for the unprefixed output of each rank.
    direct : bool
        Leave the streams of the ranks as they are.
    reads_input : bool
        Whether rank 0 may read the launcher's standard input.

    Attributes
    ----------
    address : str
        Where supervisors connect.
    links : dict
        The ranks that have.
    said : bytes
        The last of what MPI's launcher wrote.
    """

    def __init__(
        self, size: int, screen: Screen, log_dir: Path | None, *, direct: bool, reads_input: bool
    ) -> None:
        self.links: dict[int, RankLink] = {}
        self.said = b""
        self._screen = screen
        self._log_dir = log_dir
        self._direct = direct
        self._reads_input = reads_input
        self._channels: list[Channel] = []
        self._pipes: set[int] = set()
        self._connections: list[RankLink] = []
        self._selector = selectors.DefaultSelector()
        # The path of a socket may hold 107 bytes, which a long TMPDIR would use up.
        base = None if len(tempfile.gettempdir()) < 60 else "/tmp"
        self._folder = tempfile.mkdtemp(prefix="shardwise-", dir=base)
        self.address = os.path.join(self._folder, "control")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.address)
        self._listener.listen(size)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def __enter__(self) -> Switchboard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is left of the output, and close everything."""
        # A process that a rank left behind may hold its pipes open, so their end is not waited for.
        try:
            while self.step(0.0):
                pass
            for channel in self._channels:
                channel.close()
        finally:
            self._selector.close()
            self._listener.close()
            for link in self._connections:
                link.close()
            for pipe in self._pipes:
                os.close(pipe)
            shutil.rmtree(self._folder, ignore_errors=True)

    def step(self, seconds: float) -> bool:
        """Handle what has come, waiting for a short while if nothing has; False if nothing came."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            key.data()
        if not ready:
            for channel in self._channels:
                channel.rest()
        return bool(ready)

    def listen_to(self, launcher: int) -> None:
        """Keep the last of what MPI's launcher writes to this descriptor, which the caller closes."""
        self._selector.register(launcher, selectors.EVENT_READ, partial(self._hear, launcher))

    def stop_listening(self, launcher: int) -> None:
        """Forget a descriptor that is about to be closed; safe to repeat."""
        if launcher in self._selector.get_map():
            self._selector.unregister(launcher)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        link = RankLink(connection)
        self._connections.append(link)
        self._selector.register(connection, selectors.EVENT_READ, partial(self._receive, link))

    def _receive(self, link: RankLink) -> None:
        known = link.rank
        if not link.receive():
            self._selector.unregister(link.connection)
        if known is None and link.rank is not None:
            self.links[link.rank] = link
            link.welcome([] if self._direct else self._open_streams(link, link.rank))

    def _open_streams(self, link: RankLink, rank: int) -> list[int]:
        """What becomes 0, 1 and 2 of a rank. Rank 0 reads what the launcher could, the others nothing."""
        try:
            reading = os.dup(0) if rank == 0 and self._reads_input else os.open(os.devnull, os.O_RDONLY)
        except OSError:
            reading = os.open(os.devnull, os.O_RDONLY)  # the launcher's own input is closed
        return [reading, self._open_channel(link, rank, 1), self._open_channel(link, rank, 2)]

    def _open_channel(self, link: RankLink, rank: int, number: int) -> int:
        """Make a pipe for one stream of a rank; returns the end that the rank writes to."""
        source, end = os.pipe()
        log = None if self._log_dir is None else self._log_dir / f"{rank}.{'out' if number == 1 else 'err'}"
        channel = Channel(self._screen, rank, "stdout" if number == 1 else "stderr", log)
        self._channels.append(channel)
        self._pipes.add(source)
        self._selector.register(source, selectors.EVENT_READ, partial(self._pump, source, channel, link))
        return end

    def _pump(self, source: int, channel: Channel, link: RankLink) -> None:
        data = os.read(source, _BLOCK)
        if data:
            link.note_output(data)
            channel.feed(data)
        else:
            channel.close()
            self._selector.unregister(source)
            self._pipes.discard(source)
            os.close(source)

    def _hear(self, launcher: int) -> None:
        data = os.read(launcher, _BLOCK)
        if not data:
            self._selector.unregister(launcher)
        self.said = (self.said + data)[-_KEPT:]
