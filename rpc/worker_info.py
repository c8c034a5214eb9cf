"""Who takes part in remote calls: a name and a place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WorkerInfo"]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker of an RPC group. A value: equal, hashed and sent as one.

    Attributes
    ----------
    name : str
        Unique in its group.
    id : int
        Its place in the group, from 0; where the group is all ranks, its global rank.

    Examples
    --------
    >>> WorkerInfo("trainer", 1)
    WorkerInfo(id=1, name=trainer)
    """

    name: str
    id: int

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"
