"""Everything that comes from the ranks of a job, as it comes: connections, reports, output."""

from __future__ import annotations

import json
import os
import secrets
import selectors
import shutil
import socket
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType

from shardwise.collectives.control.handshake import KEY_BYTES
from shardwise.launch.door import Door, address_towards
from shardwise.launch.feed import Feed
from shardwise.launch.host import is_here
from shardwise.launch.link import RankLink, place_ranks
from shardwise.launch.output import Channel, Screen, StreamName
from shardwise.launch.rank import HANDED
from shardwise.launch.reach import Reach
from shardwise.launch.uplink import this_host

__all__ = ["Switchboard"]

_BLOCK = 1 << 16
_KEPT = 1 << 14
_ENDINGS: dict[StreamName, str] = {"stdout": "out", "stderr": "err"}


class Switchboard:
    """Listens for the supervisors of ranks, and for their output. A context manager.

    Parameters
    ----------
    reach : Reach
        How many ranks are to come, and from where.
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
    handed : dict
        Variables that tell supervisors where to connect, and the key of the job.
    links : dict
        The ranks that have.
    said : bytes
        The last of what MPI's launcher wrote.
    """

    def __init__(
        self, reach: Reach, screen: Screen, log_dir: Path | None, *, direct: bool, reads_input: bool
    ) -> None:
        self.links: dict[int, RankLink] = {}
        self.said = b""
        self._size = reach.size
        self._spread = reach.launcher != "fork"
        self._screen = screen
        self._log_dir = log_dir
        self._direct = direct
        self._reads_input = reads_input
        self._channels: list[Channel] = []
        self._errors: dict[int, Channel] = {}
        self._remote: dict[int, dict[StreamName, Channel]] = {}
        self._pipes: set[int] = set()
        self._connections: list[RankLink] = []
        self._feed: Feed | None = None
        self._selector = selectors.DefaultSelector()
        # The path of a socket may hold 107 bytes, which a long TMPDIR would use up.
        base = None if len(tempfile.gettempdir()) < 60 else "/tmp"
        self._folder = tempfile.mkdtemp(prefix="shardwise-", dir=base)
        path = os.path.join(self._folder, "control")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(reach.size)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._door: Door | None = None
        key = b""
        if self._spread:
            key = secrets.token_bytes(KEY_BYTES)
            others = [host.name for host in reach.hosts if not is_here(host.name)]
            if others or not reach.hosts:
                address = address_towards(others, reach.iface or os.environ.get("SHARDWISE_IFACE"))
                self._door = Door(address, key, self._selector, partial(self._admit, remote=True))
        where = {"host": this_host(), "unix": path, "tcp": self._door.address if self._door else None}
        self.handed = dict(zip(HANDED, (json.dumps(where), key.hex()), strict=True))

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
            if self._feed is not None:
                self._feed.close()
            if self._door is not None:
                self._door.close()
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
        if self._door is not None:
            self._door.shut_out()
        return bool(ready)

    def unseen(self, rank: int) -> str:
        """Give the last of what a rank wrote to stderr and nobody saw."""
        channel = self._errors.get(rank)
        return "" if channel is None else channel.unseen.decode(errors="replace").strip()

    def listen_to(self, launcher: int) -> None:
        """Keep the last of what MPI's launcher writes to this descriptor, which the caller closes."""
        self._selector.register(launcher, selectors.EVENT_READ, partial(self._hear, launcher))

    def stop_listening(self, launcher: int) -> None:
        """Forget a descriptor that is about to be closed; safe to repeat."""
        if launcher in self._selector.get_map():
            self._selector.unregister(launcher)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._admit(connection, remote=False)

    def _admit(self, connection: socket.socket, *, remote: bool) -> None:
        link = RankLink(connection, remote=remote)
        self._connections.append(link)
        self._selector.register(connection, selectors.EVENT_READ, partial(self._receive, link))

    def _receive(self, link: RankLink) -> None:
        known = link.rank
        if not link.receive():
            self._selector.unregister(link.connection)
            link.close()
        if known is None and link.rank is not None:
            self.links[link.rank] = link
            if not self._spread:
                self._welcome(link, link.rank, {})
            elif len(self.links) == self._size:
                places = place_ranks(self.links)
                for rank in sorted(self.links):
                    self._welcome(self.links[rank], rank, places[rank])
        if link.output and link.rank is not None:
            channels = self._remote[link.rank]
            for stream, data in link.output:
                link.note_output(data)
                channels[stream].feed(data)
            link.output.clear()
        if self._feed is not None and link.rank == 0:
            self._feed.go_on(link.taken)

    def _welcome(self, link: RankLink, rank: int, environment: Mapping[str, str]) -> None:
        if not link.remote:
            link.welcome(environment, [] if self._direct else self._open_streams(link, rank))
            return
        self._remote[rank] = {
            "stdout": self._make_channel(rank, "stdout"),
            "stderr": self._make_channel(rank, "stderr"),
        }
        link.welcome(environment, [])
        if rank == 0 and self._reads_input:
            self._feed = Feed(self._selector, link.send_input)
        else:
            link.send_input(b"")

    def _open_streams(self, link: RankLink, rank: int) -> list[int]:
        """What becomes 0, 1 and 2 of a rank. Rank 0 reads what the launcher could, the others nothing."""
        try:
            reading = os.dup(0) if rank == 0 and self._reads_input else os.open(os.devnull, os.O_RDONLY)
        except OSError:
            reading = os.open(os.devnull, os.O_RDONLY)  # the launcher's own input is closed
        return [reading, self._open_channel(link, rank, "stdout"), self._open_channel(link, rank, "stderr")]

    def _open_channel(self, link: RankLink, rank: int, stream: StreamName) -> int:
        """Make a pipe for one stream of a rank; returns the end that the rank writes to."""
        source, end = os.pipe()
        channel = self._make_channel(rank, stream)
        self._pipes.add(source)
        self._selector.register(source, selectors.EVENT_READ, partial(self._pump, source, channel, link))
        return end

    def _make_channel(self, rank: int, stream: StreamName) -> Channel:
        log = None if self._log_dir is None else self._log_dir / f"{rank}.{_ENDINGS[stream]}"
        channel = Channel(self._screen, rank, stream, log)
        self._channels.append(channel)
        if stream == "stderr":
            self._errors[rank] = channel
        return channel

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
