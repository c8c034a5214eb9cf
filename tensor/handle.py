"""What registering a hook gives back."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["RemovableHandle"]


class RemovableHandle:
    """Takes a hook away again: ``handle.remove()``, or leave its ``with`` block."""

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self._hooks: list[Any] | None = hooks
        self._hook = hook

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        if self._hooks is not None:
            self._hooks.remove(self._hook)
            self._hooks = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
