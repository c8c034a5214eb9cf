"""What one-cycle and cyclic schedules share: a value per group, and the momentum that moves as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwise.backend.errors import ArgumentError, ModuleError
from shardwise.optim.optimizer import Optimizer

__all__ = ["begin_momentum", "per_group", "set_momentum"]


def per_group(name: str, what: str, optimizer: Optimizer, value: float | Sequence[float]) -> list[float]:
    """Return a value per group, of a list of them or of one for all."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [float(value)] * groups  # type: ignore[arg-type]  # no sequence is left
    if len(value) != groups:
        raise ModuleError(f"{name}: got {len(value)} values of {what} for {groups} parameter groups")
    return [float(v) for v in value]


def begin_momentum(
    name: str, optimizer: Optimizer, low: Sequence[float], high: Sequence[float], fresh: bool
) -> None:
    """Note the bounds of the momentum in the groups, and begin with the upper one.

    Raises
    ------
    ArgumentError
        The optimizer has neither ``momentum`` nor ``betas``.
    """
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ArgumentError(
            f"{name}: cycle_momentum needs an optimizer with momentum or betas, and "
            f"{type(optimizer).__name__} has neither; pass cycle_momentum=False"
        )
    if fresh:
        for group, base, most in zip(optimizer.param_groups, low, high, strict=True):
            set_momentum(group, most)
            group["max_momentum"], group["base_momentum"] = most, base


def set_momentum(group: dict[str, Any], value: float) -> None:
    """Set the momentum of a group, or the first beta."""
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
