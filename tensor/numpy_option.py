"""What NumPy's functions can be asked for, and ops cannot."""

from __future__ import annotations

from typing import Any

from shardwise.backend.errors import ArgumentError

__all__ = ["refuse"]


_OTHERWISE = "choose with where() or an index before, or combine with the result after"
_INSTEAD = {"out": "use the result, or put it into a tensor with copy_()"}


def refuse(name: str, options: dict[str, Any]) -> None:
    """Raise for arguments that NumPy has and ops lack, unless they say nothing."""
    for option, value in options.items():
        if value is not None:
            raise ArgumentError(
                f"np.{name} of a tensor takes no {option!r}; {_INSTEAD.get(option, _OTHERWISE)}"
            )
