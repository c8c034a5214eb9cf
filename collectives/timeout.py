"""Time-outs, in seconds or as PyTorch has them."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

__all__ = ["TIMEOUT", "Timeout", "seconds"]

TIMEOUT = 600.0  # seconds that an operation is waited for, unless its group or its world says otherwise

Timeout: TypeAlias = float | timedelta


def seconds(timeout: Timeout) -> float:
    """Give a time-out in seconds."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
