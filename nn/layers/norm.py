"""Normalisation over features."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.nn import functional, init
from shardwise.nn.functions.norm import NormalizedShape, local_response_norm, normalized_sizes, rms_norm
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, ones, zeros

__all__ = ["LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LayerNorm(Module):
    """Normalise over the last dims (Ba, Kiros, Hinton 2016).

    Parameters
    ----------
    normalized_shape : int or sequence of int
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
        normalized_shape: NormalizedShape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        shape = normalized_sizes("LayerNorm", normalized_shape)
        kind = np.float32 if dtype is None else dtype
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", Parameter(ones(shape, dtype=kind, device=device)) if elementwise_affine else None
        )
        self.register_parameter(
            "bias",
            Parameter(zeros(shape, dtype=kind, device=device)) if elementwise_affine and bias else None,
        )

    def reset_parameters(self) -> None:
        """Scale by 1 and shift by 0 again."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (..., *normalized_shape)."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Show shape and options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide the last dims by their root mean square (Zhang, Sennrich 2019).

    Parameters
    ----------
    normalized_shape : int or sequence of int
    eps : float, optional
        What the dtype can tell from 1 if not given.
    elementwise_affine : bool
        Learn a scale.
    device, dtype : optional
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: NormalizedShape,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        shape = normalized_sizes("RMSNorm", normalized_shape)
        kind = np.float32 if dtype is None else dtype
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", Parameter(ones(shape, dtype=kind, device=device)) if elementwise_affine else None
        )

    def reset_parameters(self) -> None:
        """Scale by 1 again."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (..., *normalized_shape)."""
        return rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Show shape and options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Divide by a power of the mean square of neighbouring channels; see `functional.local_response_norm`.

    Parameters
    ----------
    size : int
    alpha, beta, k : float
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (batch, channels, places, ...)."""
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Show the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
