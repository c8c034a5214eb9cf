"""The shared memory of one worker: what it lends to others of its host, and what they lend to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from shardwise.rpc.wire.address import Address
from shardwise.rpc.wire.borrowing import Borrower
from shardwise.rpc.wire.frame import Frame, Type
from shardwise.rpc.wire.lending import LENT, Lender

__all__ = ["Sharing"]


class Sharing:
    """Lends large buffers of frames on their way out, and finds those of frames that come in.

    Parameters
    ----------
    me : int
        Id of this worker.
    addresses : sequence of Address
    most : int
        Bytes that are lent to one worker.
    send : callable
        ``send(to, frame)`` sends what is told about segments.
    soon : callable
        Has a call called on the thread of the loop; takes no lock.
    """

    def __init__(
        self,
        me: int,
        addresses: Sequence[Address],
        most: int,
        send: Callable[[int, Frame], None],
        soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._send = send
        self._soon = soon
        self._closed = False
        near = [each.host == addresses[me].host for each in addresses]
        self._lenders = [Lender(most if is_near else 0) for is_near in near]
        self._borrower = Borrower(self._give_back)

    @property
    def nbytes(self) -> int:
        """Bytes of the segments that this worker has made."""
        return sum(each.nbytes for each in self._lenders)

    def lend(self, to: int, frame: Frame, nbytes: int) -> None:
        """Copy the large buffers of a frame of so many bytes into segments, if `to` can look at them."""
        if nbytes < LENT:
            return
        frame.segments, fresh = self._lenders[to].lend(frame.parcel.buffers)
        for segment in fresh:
            self._send(to, Frame(Type.SEGMENT, segment.number, fds=(segment.fd,)))

    def take(self, src: int, frame: Frame) -> None:
        """Take what another worker tells about segments. On the thread of the loop."""
        match frame.type:
            case Type.SEGMENT:
                self._borrower.meet(src, frame.id, frame.fds[0])
            case Type.RELEASE:
                if self._lenders[src].released(frame.id):
                    self._send(src, Frame(Type.FORGET, frame.id))
            case Type.FORGET:
                self._borrower.forget(src, frame.id)

    def memory(self, src: int, number: int, nbytes: int) -> memoryview:
        """Give the memory of a segment that `src` lends, or raise FrameError."""
        return self._borrower.memory(src, number, nbytes)

    def lost(self, peer: int) -> None:
        """Forget a worker that is gone."""
        self._lenders[peer].close()
        self._borrower.lost(peer)

    def close(self) -> None:
        """Lend nothing any more."""
        self._closed = True
        for lender in self._lenders:
            lender.close()

    def _give_back(self, src: int, number: int) -> None:
        """Tell a worker that nothing lies in its segment any more; finalisers call it."""
        if not self._closed:
            self._soon(partial(self._send, src, Frame(Type.RELEASE, number)))
