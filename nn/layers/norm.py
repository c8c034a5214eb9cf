"""Normalisation layers."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.nn import functional
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, ones, zeros

__all__ = ["LayerNorm"]


class LayerNorm(Module):
    """Normalise over the last dims (Ba, Kiros, Hinton 2016).

    Parameters
    ----------
    normalized_shape : int or tuple of int
    eps : float
    elementwise_affine : bool
        Learn a scale and a shift.
    bias : bool
        Learn the shift as well.
    device, dtype : optional
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.register_parameter(
            "weight", Parameter(ones(shape, dtype=dtype, device=device)) if elementwise_affine else None
        )
        self.register_parameter(
            "bias",
            Parameter(zeros(shape, dtype=dtype, device=device)) if elementwise_affine and bias else None,
        )

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (..., *normalized_shape)."""
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Show shape and eps."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
