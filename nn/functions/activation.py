"""Activations."""

from __future__ import annotations

from typing import Literal

from shardwise.backend.errors import ArgumentError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.tensor import Tensor
from shardwise.tensor.ops import activation

__all__ = ["gelu", "log_softmax", "relu", "softmax"]


def gelu(x: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Return ``x * Phi(x)``, exactly or by the tanh approximation."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    check_tensors("gelu", x=x)
    check_dtypes("gelu", x=x)
    return activation.GeluTanh.apply(x) if approximate == "tanh" else activation.Gelu.apply(x)


def relu(x: Tensor) -> Tensor:
    """Return the positive part."""
    check_tensors("relu", x=x)
    return x.relu()


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Return exponentials that sum to one along `dim`."""
    check_tensors("softmax", x=x)
    return x.softmax(dim)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Return the logarithm of the softmax along `dim`."""
    check_tensors("log_softmax", x=x)
    return x.log_softmax(dim)
