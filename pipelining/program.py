"""`Program`: what every rank does, in order; its text, and its files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Literal, TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import COMMUNICATION, COMPUTE, Action, Dialect, parse_action
from shardwise.pipelining.need import Skips

__all__ = ["Format", "Program", "loop_placement", "stage_ranks", "v_placement"]

Format: TypeAlias = Literal["compute_only", "compute_comms"]


@dataclass(frozen=True, slots=True)
class Program:
    """What the ranks of a pipeline do.

    Parameters
    ----------
    ranks : tuple of tuple of Action
        Per rank its actions, in order.

    Examples
    --------
    >>> Program.from_text("0F0,0F1,0B0,0B1\\n1F0,1B0,1F1,1B1").microbatches
    2
    """

    ranks: tuple[tuple[Action, ...], ...]

    @classmethod
    def of(cls, ranks: Sequence[Sequence[Action]]) -> Program:
        """Make a program of lists."""
        return cls(tuple([tuple(actions) for actions in ranks]))

    def __iter__(self) -> Iterator[tuple[Action, ...]]:
        return iter(self.ranks)

    def __len__(self) -> int:
        return len(self.ranks)

    # ---- what it speaks of

    @property
    def placement(self) -> dict[int, int]:
        """Stage -> the rank that computes it; the first one, if there are several."""
        found: dict[int, int] = {}
        for rank, actions in enumerate(self.ranks):
            for action in actions:
                for part in action.compute:
                    if part.kind in COMPUTE:
                        found.setdefault(part.stage, rank)
        return dict(sorted(found.items()))

    @property
    def owners(self) -> dict[tuple[int, int], int]:
        """(Stage, microbatch) -> the rank that computes its forward.

        A schedule with replicas of the model runs some microbatches through one of them and some through
        another, so that a stage alone does not say the rank.
        """
        found: dict[tuple[int, int], int] = {}
        for rank, actions in enumerate(self.ranks):
            for action in actions:
                for part in action.compute:
                    if part.kind in COMPUTE and part.microbatch is not None:
                        found.setdefault((part.stage, part.microbatch), rank)
        return found

    @property
    def stages(self) -> int:
        """Number of stages."""
        return max(self.placement, default=-1) + 1

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """Return the stages that a rank computes, ascending."""
        found = {p.stage for action in self.ranks[rank] for p in action.compute if p.kind in COMPUTE}
        return tuple(sorted(found))

    @property
    def microbatches(self) -> int:
        """Number of microbatches."""
        named = [p.microbatch for actions in self.ranks for a in actions for p in a.compute]
        return max((m for m in named if m is not None), default=-1) + 1

    @property
    def has_transfers(self) -> bool:
        """Whether it says what is sent between ranks."""
        return any(action.kind in COMMUNICATION for actions in self.ranks for action in actions)

    @property
    def holders(self) -> dict[int, tuple[int, ...]]:
        """Stage -> the ranks that compute it: one, or several replicas."""
        found: dict[int, set[int]] = {}
        for (stage, _), rank in self.owners.items():
            found.setdefault(stage, set()).add(rank)
        return {stage: tuple(sorted(ranks)) for stage, ranks in sorted(found.items())}

    @property
    def skips(self) -> Skips:
        """Stage -> later stages on other ranks that take values of it past those between, as sends say.

        Examples
        --------
        >>> Program.from_text("0F0,0SEND_F0>2").skips
        {0: (2,)}
        """
        found: dict[int, set[int]] = {}
        for actions in self.ranks:
            for action in actions:
                if action.peer is not None:
                    forth = action.kind in ("SEND_F", "RECV_B")
                    ends = (action.stage, action.peer) if forth else (action.peer, action.stage)
                    found.setdefault(ends[0], set()).add(ends[1])
        return {stage: tuple(sorted(targets)) for stage, targets in sorted(found.items())}

    @property
    def is_lowered(self) -> bool:
        """Whether it says more than what is computed."""
        return any(
            action.kind not in COMPUTE and action.kind != "R" for actions in self.ranks for action in actions
        )

    # ---- text

    def to_text(self) -> str:
        """Return one line per rank, actions with commas between."""
        return "\n".join([",".join(map(str, actions)) for actions in self.ranks])

    __str__ = to_text

    @classmethod
    def from_text(
        cls, text: str, format: Format = "compute_comms", dialect: Dialect = "shardwise"
    ) -> Program:
        """Read one line per rank; empty cells are idle and count nothing.

        Parameters
        ----------
        text : str
        format : Format
            ``compute_only`` refuses everything that does not compute.
        dialect : Dialect
            ``torch<2.6`` for files of PyTorch before 2.6, where ``B`` is the gradient of the input and ``BW``
            the full backward.

        Raises
        ------
        ScheduleError
            A cell that is no action, or, for ``compute_only``, one that does not compute: rank, place, text.
        """
        ranks: list[list[Action]] = []
        for rank, row in enumerate(csv.reader(StringIO(text))):
            actions = []
            for place, cell in enumerate(row):
                if not cell.strip():
                    continue
                try:
                    action = parse_action(cell, dialect)
                except ScheduleError as error:
                    raise ScheduleError(f"rank {rank}, cell {place}: {error}") from None
                if format == "compute_only" and action.kind not in COMPUTE:
                    raise ScheduleError(
                        f"rank {rank}, cell {place}: {cell.strip()!r} does not compute, and the format is "
                        "compute_only; read it as compute_comms"
                    )
                actions.append(action)
            ranks.append(actions)
        return cls.of(ranks)

    def to_csv(self, path: str | Path) -> None:
        """Write the text into a file."""
        Path(path).write_text(self.to_text() + "\n")

    @classmethod
    def from_csv(
        cls, path: str | Path, format: Format = "compute_comms", dialect: Dialect = "shardwise"
    ) -> Program:
        """Read a file that `to_csv`, or PyTorch, wrote."""
        return cls.from_text(Path(path).read_text(), format, dialect)


def loop_placement(ranks: int, stages: int) -> dict[int, int]:
    """Deal stages over ranks round and round: stage s lies on rank s mod p."""
    _check_divides(ranks, stages)
    return {stage: stage % ranks for stage in range(stages)}


def v_placement(ranks: int, stages: int) -> dict[int, int]:
    """Deal stages forth and back: of two per rank, rank 0 has the first and the last."""
    _check_divides(ranks, stages)
    found = {}
    for stage in range(stages):
        turn, place = divmod(stage, ranks)
        found[stage] = place if turn % 2 == 0 else ranks - 1 - place
    return found


def stage_ranks(placement: Mapping[int, int], rank: int) -> tuple[int, ...]:
    """Return the stages of a rank, ascending."""
    return tuple(sorted([stage for stage, owner in placement.items() if owner == rank]))


def _check_divides(ranks: int, stages: int) -> None:
    if ranks < 1 or stages < ranks or stages % ranks:
        raise ScheduleError(
            f"{stages} stages cannot be dealt evenly over {ranks} ranks; take a multiple of {ranks}, or name "
            "the rank of each stage"
        )
