"""What the differentiable forms share: signatures, and how a reduction changes with one rank's array."""

from __future__ import annotations

from shardwise.backend.array import Shape
from shardwise.collectives.context import get_world
from shardwise.collectives.group import ProcessGroup

__all__ = ["LETTERS", "entire", "signature"]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIMS = ("dim", "split_dim", "concat_dim")


def signature(shapes: tuple[Shape, ...], params: dict[str, object]) -> str:
    """Every dim is whole, since an element moves to other ranks; those that change size change letters."""
    names = LETTERS[: len(shapes[0])]
    rank = len(names)
    changed = {place % max(rank, 1) for place in (params.get(key) for key in _DIMS) if isinstance(place, int)}
    left = "".join(f"[{name}]" for name in names)
    right = "".join(f"[{name.upper() if i in changed else name}]" for i, name in enumerate(names))
    return f"{left}->{right or ('[A]' if changed else '')}"


def entire(group: ProcessGroup | None) -> ProcessGroup:
    """Give the group, by default that of all ranks."""
    return group if group is not None else get_world().everyone
