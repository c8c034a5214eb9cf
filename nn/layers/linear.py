"""Layers of weights."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.nn import functional, init
from shardwise.nn.check import check_sizes
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, empty

__all__ = ["Embedding", "Linear"]


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter, shape (out, in)
        Uniform in ±1/sqrt(in) at first.
    bias : Parameter, shape (out,), or None
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, dtype=dtype, device=device))
        self.register_parameter(
            "bias", Parameter(empty(out_features, dtype=dtype, device=device)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Embedding(Module):
    """A row of numbers for each integer.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)
        Normal with variance 1 at first.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        device: str | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        check_sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.weight = Parameter(empty(num_embeddings, embedding_dim, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new rows."""
        init.normal_(self.weight)

    def forward(self, index: Tensor) -> Tensor:
        """Map integers (...) to rows (..., dim)."""
        return functional.embedding(index, self.weight)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
