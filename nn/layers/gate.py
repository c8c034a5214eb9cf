"""Gated units, as layers."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.nn import functional
from shardwise.nn.layers.linear import Linear
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["GLU", "SwiGLU"]


class GLU(Module):
    """One half of `dim` gates the other; see `functional.glu`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Halve the dim."""
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Show the dim."""
        return f"dim={self.dim}"


class SwiGLU(Module):
    """A feed-forward block with a gate: ``w2(silu(w1(x)) * w3(x))`` (Shazeer 2020).

    Parameters
    ----------
    in_features : int
    hidden_features : int
        Width of the gate; LLaMA takes about ``8 / 3`` of `in_features`.
    out_features : int, optional
        `in_features` if not given.
    bias : bool
    device, dtype : optional

    Attributes
    ----------
    w1, w3 : Linear, from in_features to hidden_features
        The gate, and what it lets through, under LLaMA's names.
    w2 : Linear, from hidden_features to out_features
    """

    w1: Linear
    w2: Linear
    w3: Linear

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        out_features: int | None = None,
        bias: bool = False,
        device: str | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        out_features = in_features if out_features is None else out_features
        self.w1 = Linear(in_features, hidden_features, bias, device, dtype)
        self.w2 = Linear(hidden_features, out_features, bias, device, dtype)
        self.w3 = Linear(in_features, hidden_features, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        hidden: Tensor = functional.swiglu(self.w1(input), self.w3(input))
        out: Tensor = self.w2(hidden)
        return out
