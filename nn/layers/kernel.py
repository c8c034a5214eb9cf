"""What convolutional layers share: their weights, how these start, and how they are shown."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.nn import init
from shardwise.nn.check import check_sizes
from shardwise.nn.parameter import Parameter
from shardwise.tensor import empty

__all__ = ["check_channels", "kernel_repr", "new_weights", "reset_weights"]


def check_channels(op: str, in_channels: int, out_channels: int, groups: int) -> None:
    """Raise ArgumentError unless all are sizes, and `groups` divides both numbers of channels."""
    check_sizes(op, in_channels=in_channels, out_channels=out_channels, groups=groups)
    if groups < 1 or in_channels % groups or out_channels % groups:
        raise ArgumentError(
            f"{op}: groups must divide in_channels and out_channels, got groups={groups} for "
            f"{in_channels} and {out_channels}"
        )


def new_weights(
    shape: tuple[int, ...], outputs: int | None, device: str | None, dtype: DTypeLike | None
) -> tuple[Parameter, Parameter | None]:
    """Return a weight of `shape`, and a bias of `outputs` elements or None; float32 if no dtype is given."""
    kind = np.float32 if dtype is None else dtype
    weight = Parameter(empty(*shape, dtype=kind, device=device))
    return weight, None if outputs is None else Parameter(empty(outputs, dtype=kind, device=device))


def reset_weights(weight: Parameter, bias: Parameter | None) -> None:
    """Fill both with numbers uniform in ±1/sqrt(fan in)."""
    fan = math.prod(weight.shape[1:])
    bound = 1.0 / math.sqrt(fan) if fan else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)


def kernel_repr(
    channels: tuple[int, int],
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    groups: int,
    bias: bool,
    mode: str = "zeros",
    **others: tuple[object, object],
) -> str:
    """Show sizes, and what differs from its default: `others` are pairs of a value and its default."""
    parts = [f"{channels[0]}, {channels[1]}", f"kernel_size={kernel_size}", f"stride={stride}"]
    parts += [f"{name}={value!r}" for name, (value, default) in others.items() if value != default]
    if groups != 1:
        parts.append(f"groups={groups}")
    if not bias:
        parts.append("bias=False")
    if mode != "zeros":
        parts.append(f"padding_mode={mode}")
    return ", ".join(parts)
