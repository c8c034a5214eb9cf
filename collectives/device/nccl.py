"""The collectives of one group over NCCL, by ``cupy.cuda.nccl``; CuPy is imported when the first is made.

Every method gives its work to the stream that is active, and returns; temporary arrays are that stream's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError
from shardwise.backend.stream_cuda import CudaDevice, cuda_address
from shardwise.collectives.device.nccl_rule import BYTE, CODES, OPS, rule_of
from shardwise.collectives.layout import Stretch
from shardwise.collectives.pending import Finished
from shardwise.collectives.reduction import Reduction, combine

__all__ = ["NcclChannel", "nccl_error", "nccl_version", "unique_id"]

_WORDS = {
    1: "a CUDA call failed; run with NCCL_DEBUG=INFO",
    2: "a system call failed; run with NCCL_DEBUG=INFO",
    3: "an internal error of NCCL",
    4: "an invalid argument; run with NCCL_DEBUG=WARN",
    5: "an invalid use, such as two ranks on one GPU; run with NCCL_DEBUG=WARN",
    6: "another rank has ended, or the network has failed",
    7: "still in progress",
}
_SMALL = 1 << 16  # bytes below which a reduction by exchange gathers everything everywhere


def nccl_version() -> tuple[int, str]:
    """Give NCCL's version, as it counts them, or 0 and why there is none."""
    try:
        from cupy.cuda import nccl

        if not nccl.available:
            return 0, "CuPy finds no NCCL; install it (pip install nvidia-nccl-cu12, or -cu13)"
        return int(nccl.get_version()), ""
    except ImportError as error:
        return (
            0,
            f"CuPy's NCCL does not import ({error}); install it (pip install nvidia-nccl-cu12, or -cu13)",
        )
    except Exception as error:
        return 0, f"NCCL does not say its version ({error})"


def unique_id() -> bytes:
    """Give the 128 bytes by which the ranks of a new communicator find each other."""
    from cupy.cuda import nccl

    return bytes(nccl.get_unique_id())


def nccl_error(error: Exception) -> str:
    """Say in words what NCCL complains of; CuPy raises KeyError for a status that it does not know."""
    status = getattr(error, "status", None)
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], int):
        status = error.args[0]
    words = _WORDS.get(status) if isinstance(status, int) else None
    return f"NCCL status {status}: {words}" if words else f"{type(error).__name__}: {error}"


class NcclChannel:
    """The collectives of one communicator. Making it waits for all ranks of the group to do so.

    Who calls has made `stream` the active one, and keeps the arrays until what comes next on it is done.

    Parameters
    ----------
    device : CudaDevice
        This rank's GPU.
    size, rank : int
        Of the group.
    identity : bytes
        From `unique_id` of one rank.
    by_rank_order : bool
        Combine sums and products of floats in rank order, as any other transport does then.

    Attributes
    ----------
    stream : Stream
        In whose order it works.

    Raises
    ------
    CollectiveError
        If NCCL refuses.
    """

    def __init__(
        self, device: CudaDevice, size: int, rank: int, identity: bytes, by_rank_order: bool = False
    ) -> None:
        import cupy
        from cupy.cuda import nccl

        self._nccl = nccl
        self._size = size
        self._rank = rank
        self._by_rank_order = by_rank_order
        try:
            with cupy.cuda.Device(device.index):
                self._comm = nccl.NcclCommunicator(size, identity, rank)
        except Exception as error:
            raise CollectiveError(f"NCCL could not connect: {nccl_error(error)}") from error
        self.stream = device.stream()

    def check(self) -> None:
        """Raise if something has failed on the device or in the network meanwhile."""
        try:
            self._comm.check_async_error()
        except KeyError as error:
            if error.args != (7,):
                raise

    def abort(self) -> None:
        """End what is under way; nothing can be issued afterwards.

        Destroying instead would wait for what never ends. The object itself destroys when it goes, unless it
        was aborted first.
        """
        self._comm.abort()

    def close(self) -> None:
        self._comm.destroy()

    # ---- the table

    def all_reduce(self, x: Array, out: Array, op: Reduction) -> Finished:
        def call(a: Array, b: Array, code: int, what: int) -> None:
            self._comm.allReduce(cuda_address(a), cuda_address(b), a.size, code, what, self.stream.ptr)

        self._reduced(x, out, op, call, self._all_reduce_by_exchange)
        return Finished()

    def all_gather(self, x: Array, out: Array) -> Finished:
        if x.nbytes:
            self._comm.allGather(cuda_address(x), cuda_address(out), x.nbytes, BYTE, self.stream.ptr)
        return Finished()

    def reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Finished:
        def call(a: Array, b: Array, code: int, what: int) -> None:
            self._comm.reduceScatter(cuda_address(a), cuda_address(b), b.size, code, what, self.stream.ptr)

        self._reduced(x, out, op, call, self._reduce_scatter_by_exchange)
        return Finished()

    def all_to_all(self, x: Array, out: Array) -> Finished:
        nbytes = x.nbytes // self._size
        if nbytes:
            with self._grouped():
                for i in range(self._size):
                    self._comm.send(cuda_address(x) + i * nbytes, nbytes, BYTE, i, self.stream.ptr)
                    self._comm.recv(cuda_address(out) + i * nbytes, nbytes, BYTE, i, self.stream.ptr)
        return Finished()

    def exchange(
        self,
        x: Array,
        out: Array,
        sent: Sequence[Stretch | None],
        received: Sequence[Stretch | None],
    ) -> Finished:
        width = x.dtype.itemsize
        with self._grouped():
            for i, stretch in enumerate(sent):
                if stretch is not None and stretch[1] > stretch[0]:
                    nbytes = (stretch[1] - stretch[0]) * width
                    self._comm.send(cuda_address(x) + stretch[0] * width, nbytes, BYTE, i, self.stream.ptr)
            for i, stretch in enumerate(received):
                if stretch is not None and stretch[1] > stretch[0]:
                    nbytes = (stretch[1] - stretch[0]) * width
                    self._comm.recv(cuda_address(out) + stretch[0] * width, nbytes, BYTE, i, self.stream.ptr)
        return Finished()

    def broadcast(self, x: Array, root: int) -> Finished:
        if x.nbytes:
            self._comm.broadcast(cuda_address(x), cuda_address(x), x.nbytes, BYTE, root, self.stream.ptr)
        return Finished()

    def reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> Finished:
        filled = np.empty_like(x) if out is None else out  # NCCL wants a place, and leaves it alone

        def call(a: Array, b: Array, code: int, what: int) -> None:
            self._comm.reduce(cuda_address(a), cuda_address(b), a.size, code, what, root, self.stream.ptr)

        def exchange(a: Array, b: Array, op: Reduction) -> None:
            self._reduce_by_exchange(a, b, op, root)

        self._reduced(x, filled, op, call, exchange)
        return Finished()

    def gather(self, x: Array, out: Array | None, root: int) -> Finished:
        if x.nbytes:
            with self._grouped():
                self._comm.send(cuda_address(x), x.nbytes, BYTE, root, self.stream.ptr)
                if out is not None:
                    for i in range(self._size):
                        place = cuda_address(out) + i * x.nbytes
                        self._comm.recv(place, x.nbytes, BYTE, i, self.stream.ptr)
        return Finished()

    def scatter(self, x: Array | None, out: Array, root: int) -> Finished:
        if out.nbytes:
            with self._grouped():
                if x is not None:
                    for i in range(self._size):
                        place = cuda_address(x) + i * out.nbytes
                        self._comm.send(place, out.nbytes, BYTE, i, self.stream.ptr)
                self._comm.recv(cuda_address(out), out.nbytes, BYTE, root, self.stream.ptr)
        return Finished()

    def barrier(self) -> Finished:
        return Finished()  # of the host, which has come here

    # ---- how

    @contextmanager
    def _grouped(self) -> Iterator[None]:
        self._nccl.groupStart()
        try:
            yield
        finally:
            self._nccl.groupEnd()

    def _reduced(
        self,
        x: Array,
        out: Array,
        op: Reduction,
        call: Callable[[Array, Array, int, int], None],
        exchange: Callable[[Array, Array, Reduction], None],
    ) -> None:
        """Fill `out` by `call`, which NCCL can do, from what `x` is made into, or by `exchange`."""
        if not x.size:
            return
        how, dtype, asked = rule_of(x.dtype, op)
        ordered = self._by_rank_order and x.dtype.kind not in "?biu" and op in ("sum", "avg", "prod")
        if how == "exchange" or ordered:
            exchange(x, out, op)
            return
        code, what = CODES[dtype], OPS[asked]
        if how == "cast":
            wide = np.empty_like(out, dtype)
            call(x.astype(dtype), wide, code, what)
            np.copyto(out, wide, casting="unsafe")
            return
        if how == "native":
            call(x, out, code, what)
            return
        if how == "flag":
            has = np.isnan(x).view(np.uint8)
            flags = np.empty_like(out, np.uint8)
            call(has, flags, BYTE, OPS["max"])
            call(x, out, code, what)
            np.copyto(out, np.where(flags.view(np.bool_), np.asarray(np.nan, x.dtype).item(), out))
            return
        source = x.reshape(-1).view(dtype)
        target = out.reshape(-1).view(dtype)
        call(source, target, code, what)
        if how == "parity":
            np.bitwise_and(target, 1, out=target)

    def _all_reduce_by_exchange(self, x: Array, out: Array, op: Reduction) -> None:
        n = self._size
        if x.nbytes * n <= _SMALL:
            parts = np.empty_like(x, shape=(n, x.size))
            self.all_gather(x, parts)
            combine([parts[i, ...] for i in range(n)], op, out.reshape(-1))
            return
        share = -(-x.size // n)
        padded = np.zeros_like(x, shape=(n * share,))
        padded[: x.size] = x.reshape(-1)
        mine = np.empty_like(x, shape=(share,))
        self._reduce_scatter_by_exchange(padded, mine, op)
        self.all_gather(mine, padded)
        out.reshape(-1)[...] = padded[: x.size]

    def _reduce_scatter_by_exchange(self, x: Array, out: Array, op: Reduction) -> None:
        n = self._size
        parts = np.empty_like(x, shape=(n, out.size))
        self.all_to_all(x, parts)
        combine([parts[i, ...] for i in range(n)], op, out.reshape(-1))

    def _reduce_by_exchange(self, x: Array, out: Array, op: Reduction, root: int) -> None:
        parts = np.empty_like(x, shape=(self._size, x.size)) if self._rank == root else None
        self.gather(x, parts, root)
        if parts is not None:
            combine([parts[i, ...] for i in range(self._size)], op, out.reshape(-1))
