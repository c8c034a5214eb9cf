"""Options of optimizers: numbers in their ranges, and what PyTorch has besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardwise.backend.errors import ArgumentError

__all__ = ["check_at_least", "check_betas", "check_hints"]

_HINTS = ("foreach", "fused", "capturable", "differentiable")


def check_at_least(name: str, options: Mapping[str, Any], keys: tuple[str, ...], least: float = 0.0) -> None:
    """Raise ArgumentError unless each of these options is a number of at least `least`."""
    for key in keys:
        value = _number(options[key])
        if value is None or not value >= least:
            raise ArgumentError(f"{name} needs {key} >= {least:g}, got {options[key]!r}")


def check_betas(name: str, options: Mapping[str, Any]) -> None:
    """Raise ArgumentError unless the option ``betas`` is a pair of numbers in [0, 1)."""
    betas = options["betas"]
    numbers = [_number(beta) for beta in betas] if isinstance(betas, (tuple, list)) else []
    if len(numbers) != 2 or not all(beta is not None and 0.0 <= beta < 1.0 for beta in numbers):
        raise ArgumentError(f"{name} needs two betas in [0, 1), got {betas!r}")


def check_hints(name: str, hints: Mapping[str, bool | None]) -> None:
    """Accept what PyTorch asks to choose between its implementations: here there is only one.

    Raises
    ------
    ArgumentError
        Steps that can be differentiated are wanted.
    TypeError
        There is no such argument.
    """
    for key, value in hints.items():
        if key not in _HINTS:
            raise TypeError(f"{name}.__init__() got an unexpected keyword argument {key!r}")
        if key == "differentiable" and value:
            raise ArgumentError(f"{name}: steps cannot be differentiated; leave differentiable away")


def _number(value: Any) -> float | None:
    """Return a number, or the number in an array of one, as a float."""
    try:
        return None if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        return None
