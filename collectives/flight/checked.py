"""Groups that compare every call before they make it: the debug mode."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveMismatchError, LaunchError
from shardwise.backend.source import source_line
from shardwise.collectives.chain import Chain
from shardwise.collectives.control import ControlPlane
from shardwise.collectives.flight.fingerprint import NBYTES, Fingerprint, disagreement
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.pending import Pending
from shardwise.collectives.rank_list import rank_list
from shardwise.collectives.transport import Channel
from shardwise.collectives.work import Work

__all__ = ["CheckedGroup", "agree_on_debug"]

T = TypeVar("T")

_PATIENCE = 120.0  # seconds for all ranks to make their worlds
_KIND = "debug"


class CheckedGroup(ProcessGroup):
    """A group whose members tell each other what they are about to call, and raise alike if it differs.

    One small all-gather on the group's own channel goes before each operation, in its order.
    """

    def submit(
        self,
        op: str,
        how: str | int | None,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        start: Callable[[Channel], Pending],
        finish: Callable[[], T],
        background: bool,
        like: Array | None = None,
        splits: Sequence[Sequence[int]] = (),
    ) -> Work[T]:
        mine = Fingerprint(op, how, str(dtype), shape, tuple(tuple(each) for each in splits), source_line(2))
        rows = np.empty((self.size, NBYTES), np.uint8)
        number = self.issued

        def compare() -> None:
            told = disagreement([Fingerprint.decode(row) for row in rows], self.ranks)
            if told is not None:
                raise CollectiveMismatchError(
                    f"operation #{number} of {self.name}, on rank {self.transport.rank}: ranks disagree on "
                    f"what they run together: {told}. Every rank of the group must call the same, in the "
                    f"same order."
                )

        def ask(on: Channel) -> Pending:
            return on.all_gather(mine.encode(), rows)

        if like is not None and self.size > 1:
            # Arrays on a device have a channel of their own, which does not take these bytes.
            super().submit("all_gather", None, rows.dtype, (NBYTES,), ask, compare, False).wait()
            return super().submit(op, how, dtype, shape, start, finish, background, like, splits)

        def links(on: Channel) -> Generator[tuple[Pending, bool], None, None]:
            yield ask(on), True
            compare()
            yield start(on), False

        return super().submit(
            op, how, dtype, shape, lambda on: Chain(links(on)), finish, background, None, splits
        )


def agree_on_debug(control: ControlPlane, debug: bool) -> None:
    """Raise unless all ranks compare their calls, or none does: those that do wait for the others'.

    Raises
    ------
    LaunchError
        On the ranks that do.
    """
    control.on(_KIND, lambda message: control.answer(message, {"debug": debug}))
    if not debug:
        return
    answers = control.ask(range(control.size), _KIND, timeout=_PATIENCE)
    others = [rank for rank, answer in answers.items() if answer.body.get("debug") is not True]
    if others:
        raise LaunchError(
            f"rank {control.rank} is in debug mode and {rank_list(others)} not: set SHARDWISE_DEBUG=1, "
            f"or init(debug=True), on all ranks or on none."
        )
