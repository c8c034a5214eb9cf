"""The collectives of a group whose ranks are on one host: in the memory that they share, or by MPI.

Every operation begins with a meeting, in which all ranks see what all call: ranks that disagree are told so
at once, and whether all arrays lie in symmetric memory is seen there. What goes by MPI, by the rule or since
there is no loop for the dtype, is issued after the meeting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, CollectiveMismatchError
from shardwise.collectives.layout import Stretch
from shardwise.collectives.pending import Finished, Pending
from shardwise.collectives.placing import Lay, Placing
from shardwise.collectives.reduction import REDUCTIONS, Reduction
from shardwise.collectives.shm import place
from shardwise.collectives.shm.arena import Reach, arenas
from shardwise.collectives.shm.operation import Call, Operation
from shardwise.collectives.shm.patience import Patience
from shardwise.collectives.shm.placement import Placement
from shardwise.collectives.shm.region import Regions
from shardwise.collectives.shm.ring import Ring
from shardwise.collectives.shm.rule import RULES, Rule, choose_path
from shardwise.collectives.transport import Channel

__all__ = ["FoldOf", "ShmChannel"]

# Gives the address of a compiled loop and the bytes of its element, or None where there is no loop.
FoldOf = Callable[[Reduction, np.dtype[Any]], tuple[int, int] | None]

_DATA = object.__basicsize__  # behind the header of an array stands the address of its elements

# What a header says of a dtype: its place here, or the last number for all others.
_DTYPES = (
    *(np.dtype(code) for code in "?bhilBHILefdgFDG"),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e5m2),
)
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_OTHER = 255

_MET = Rule(0, 0)  # of what is done when all have come

_FINISHED = Finished()


class _Plan(NamedTuple):
    """What is the same in all calls of one collective, reduction and dtype."""

    number: int
    loop: int  # the address of two numbers: where the loop that reduces is, and the bytes of its element
    little: float  # bytes that go at once
    movable: bool  # whether it can go by shared memory at all
    kept: Array  # what `loop` points to


class ShmChannel:
    """The collectives of one group on one host.

    Parameters
    ----------
    ring : Ring
    run : callable
        The compiled call.
    fold_of : callable
    by_mpi : Channel
        Of the same group.
    patience : Patience
    ranks : tuple of int
        Global ranks of the members, for messages.
    regions : Regions
        Makes symmetric memory.
    one_copy : bool
        Whether all members may read each other's memory.
    lay : callable, optional
        Lays parts into the results of others, if all members may open each other's files of memory.
    rules : mapping of str to Rule, optional
        How each collective goes; the same for all members.
    """

    def __init__(
        self,
        ring: Ring,
        run: Call,
        fold_of: FoldOf,
        by_mpi: Channel,
        patience: Patience,
        ranks: tuple[int, ...],
        regions: Regions,
        one_copy: bool = False,
        lay: Lay | None = None,
        rules: Mapping[str, Rule] = RULES,
    ) -> None:
        self.ring = ring
        self.regions = regions
        self.by_mpi = by_mpi
        self._run = run
        self._fold_of = fold_of
        self._patience = patience
        self._ranks = ranks
        self._one_copy = one_copy
        self._lay = lay
        self._reach = Reach()
        self.follow(rules)
        self._state = ring.state
        ring.state[place.MEET_SPIN : place.YIELDS + 1] = (
            patience.first_spin,
            patience.first_yields,
            patience.spin,
            patience.yields,
        )
        self._no_loop = np.array((0, 1), np.int64)

    def follow(self, rules: Mapping[str, Rule]) -> None:
        """Have the collectives go by `rules`, by name; all members do, between two operations."""
        self._rules = [rules.get(name, _MET) for name in place.KINDS]
        self._plans: dict[tuple[int, str, int], _Plan] = {}

    def all_reduce(self, x: Array, out: Array, op: Reduction) -> Pending:
        nbytes = x.nbytes
        return self._begin(
            place.ALL_REDUCE, x.dtype, op, nbytes, nbytes, x, nbytes, out, nbytes, 0,
            lambda: self.by_mpi.all_reduce(x, out, op),
        )  # fmt: skip

    def all_gather(self, x: Array, out: Array) -> Pending:
        nbytes = x.nbytes
        return self._begin(
            place.ALL_GATHER, x.dtype, "", nbytes, nbytes, x, nbytes, out, out.nbytes, 0,
            lambda: self.by_mpi.all_gather(x, out),
        )  # fmt: skip

    def reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Pending:
        nbytes = out.nbytes
        return self._begin(
            place.REDUCE_SCATTER, x.dtype, op, nbytes, x.nbytes, x, x.nbytes, out, nbytes, 0,
            lambda: self.by_mpi.reduce_scatter(x, out, op),
        )  # fmt: skip

    def all_to_all(self, x: Array, out: Array) -> Pending:
        nbytes = x.nbytes
        return self._begin(
            place.ALL_TO_ALL, x.dtype, "", nbytes // self.ring.size, nbytes, x, nbytes, out, nbytes, 0,
            lambda: self.by_mpi.all_to_all(x, out),
        )  # fmt: skip

    def broadcast(self, x: Array, root: int) -> Pending:
        nbytes = x.nbytes
        gives = nbytes if self.ring.rank == root else 0
        return self._begin(
            place.BROADCAST, x.dtype, "", nbytes, nbytes, x, gives, x, nbytes - gives, root,
            lambda: self.by_mpi.broadcast(x, root),
        )  # fmt: skip

    def reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> Pending:
        nbytes = x.nbytes
        return self._begin(
            place.REDUCE, x.dtype, op, nbytes, nbytes, x, nbytes, out, 0 if out is None else nbytes, root,
            lambda: self.by_mpi.reduce(x, out, op, root),
        )  # fmt: skip

    def gather(self, x: Array, out: Array | None, root: int) -> Pending:
        nbytes = x.nbytes
        return self._begin(
            place.GATHER, x.dtype, "", nbytes, nbytes, x, nbytes, out, 0 if out is None else out.nbytes, root,
            lambda: self.by_mpi.gather(x, out, root),
        )  # fmt: skip

    def scatter(self, x: Array | None, out: Array, root: int) -> Pending:
        nbytes = out.nbytes
        return self._begin(
            place.SCATTER, out.dtype, "", nbytes, nbytes * self.ring.size,
            x, 0 if x is None else x.nbytes, out, nbytes, root,
            lambda: self.by_mpi.scatter(x, out, root),
        )  # fmt: skip

    def barrier(self) -> Pending:
        return self._begin(
            place.BARRIER, _DTYPES[0], "", 0, 0, None, 0, None, 0, 0, self.by_mpi.barrier
        )  # fmt: skip

    def exchange(
        self,
        x: Array,
        out: Array,
        sent: Sequence[Stretch | None],
        received: Sequence[Stretch | None],
    ) -> Pending:
        return self._begin(
            place.EXCHANGE, x.dtype, "", 0, 0, None, 0, None, 0, 0,
            lambda: self.by_mpi.exchange(x, out, sent, received),
        )  # fmt: skip

    def place(self, placing: Placing) -> Pending:
        kind, dtype = place.KINDS.index(placing.kind), placing.dtype
        lay, rule = self._lay, self._rules[kind]
        if lay is None or placing.nbytes < (rule.laid if placing.packs else rule.laid_whole):
            return placing.ordinary(self)
        sizes = [math.prod(shape) * dtype.itemsize for shape in placing.shapes]
        block = arenas().block(sizes[self.ring.rank]) if placing.wants else None
        where = np.array((*((-1, 0, 0) if block is None else block.place), *sizes), np.int64)
        call = kind | _CODES.get(dtype, _OTHER) << 16 | place.PLACED << 24
        status = self._run(
            self._state,
            call,
            self._no_loop.ctypes.data,
            placing.nbytes,
            id(where) + _DATA,
            where.nbytes,
            0,
            0,
        )
        meeting = Operation(status, self._run, self._state, self._patience, self._disagreement, None)
        return Placement(
            placing,
            block,
            meeting,
            self._places,
            self._reached,
            lay,
            lambda: placing.ordinary(self),
            self.barrier,
        )

    def _places(self) -> list[list[int]]:
        """Give where the results of all lie, once they agree on how large each is; else all raise alike."""
        told = self.ring.sent_along(3 + self.ring.size)
        for member, said in enumerate(told):
            if said[3:] != told[0][3:]:
                raise CollectiveMismatchError(
                    f"ranks disagree on what they run together: by what rank {self._ranks[0]} gives, the "
                    f"results of ranks {list(self._ranks)} have {told[0][3:]} bytes, by what rank "
                    f"{self._ranks[member]} gives {said[3:]}; all must give the same sizes."
                )
        return [said[:3] for said in told]

    def _reached(self, member: int, where: Sequence[int], nbytes: int) -> Array:
        try:
            return self._reach.bytes(self.ring.pid(member), where, nbytes)
        except OSError as error:
            raise CollectiveError(
                f"rank {self._ranks[self.ring.rank]} could not map the memory of rank {self._ranks[member]}, "
                f"which it could when the group was made ({error}); set SHARDWISE_SHM=0 to use MPI alone."
            ) from error

    def close(self) -> None:
        self.ring.close()
        self.by_mpi.close()

    def _begin(
        self,
        kind: int,
        dtype: np.dtype[Any],
        op: Reduction | str,
        nbytes: int,
        sent: int,
        x: Array | None,
        x_bytes: int,
        out: Array | None,
        out_bytes: int,
        root: int,
        elsewhere: Callable[[], Pending],
    ) -> Pending:
        """Begin an operation, and end it at once if all have come.

        Parameters
        ----------
        nbytes : int
            What belongs to one rank.
        sent : int
            The most that a rank gives.
        """
        plan = self._plans.get((kind, op, dtype.num))
        if plan is None:
            plan = self._plans[kind, op, dtype.num] = self._plan(kind, op, dtype)
        call, loop, little, movable, _ = plan
        if sent > little:
            path = choose_path(self._rules[kind], sent, self._one_copy) if movable else place.BY_MPI
            call |= path << 24
        status = self._run(
            self._state,
            call | root << 32 if root else call,
            loop,
            nbytes,
            id(x) + _DATA,
            x_bytes,
            id(out) + _DATA,
            out_bytes,
        )
        if status == place.ENDED:
            return _FINISHED
        # Kept alive by the work; `elsewhere` alone would not do where it goes through here.
        return Operation(status, self._run, self._state, self._patience, self._disagreement, elsewhere)

    def _plan(self, kind: int, op: Reduction | str, dtype: np.dtype[Any]) -> _Plan:
        """Give what is the same in every such call."""
        number = kind | _place_of(op) << 8 | _CODES.get(dtype, _OTHER) << 16 | place.AT_ONCE << 24
        loop = self._no_loop
        if op:
            loop = np.array(self._fold_of(op, dtype) or (0, 1), np.int64)  # type: ignore[arg-type]
        movable = kind != place.EXCHANGE and (not op or bool(loop[0]))
        little = min(self._rules[kind].at_once, place.EAGER_ROOM) if movable else -1
        return _Plan(number, loop.ctypes.data, little, movable, loop)

    def _disagreement(self, other: int) -> CollectiveError:
        if other >= self.ring.size:
            return CollectiveError(
                f"rank {self._ranks[self.ring.rank]} could not read the memory of another process on this "
                f"host, which it could when the group was made; set SHARDWISE_SHM=0 to use MPI alone."
            )
        mine, theirs = self.ring.rank, other
        first, second = sorted((mine, theirs))
        return CollectiveMismatchError(
            f"ranks disagree on what they run together: "
            f"rank {self._ranks[first]} calls {self._spell(first)}, "
            f"rank {self._ranks[second]} calls {self._spell(second)}."
        )

    def _spell(self, member: int) -> str:
        call, nbytes, *_ = self.ring.header(member)
        kind, op, code = call & 0xFF, call >> 8 & 0xFF, call >> 16 & 0xFF
        root = call >> 32
        name = place.KINDS[kind]
        if kind == place.BARRIER:
            return "barrier()"
        if kind == place.EXCHANGE:
            return f"an exchange of uneven parts ({_DTYPES[code] if code < len(_DTYPES) else 'other'})"
        what = f"{nbytes} bytes"
        if code < len(_DTYPES):
            dtype = _DTYPES[code]
            if kind in (place.REDUCE_SCATTER, place.ALL_TO_ALL):
                nbytes *= self.ring.size
            what = f"{dtype}, {nbytes // dtype.itemsize} elements"
        if kind == place.SCATTER:
            what += " to each"
        if kind in (place.BROADCAST, place.SCATTER):
            what += f", src={self._ranks[root]}"
        if kind in (place.REDUCE, place.GATHER):
            what += f", dst={self._ranks[root]}"
        if op:
            what += f", op={REDUCTIONS[op - 1]!r}"
        return f"{name}({what})"


def _place_of(op: str) -> int:
    return 1 + [*REDUCTIONS].index(op) if op in REDUCTIONS else 0
