"""Layers with parameters, and layers without."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.nn import functional, init
from shardwise.nn.check import check_sizes
from shardwise.nn.dropout import check_probability
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, empty, ones, zeros

__all__ = ["GELU", "CrossEntropyLoss", "Dropout", "Embedding", "LayerNorm", "Linear", "MSELoss", "ReLU"]


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


class Dropout(Module):
    """Drop elements at random while training; see `functional.dropout`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        check_probability("Dropout", "p", p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop, or pass on outside training."""
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Show the probability."""
        return f"p={self.p}"


class GELU(Module):
    """``x * Phi(x)``; see `functional.gelu`."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        super().__init__()
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """Show the variant."""
        return f"approximate={self.approximate!r}"


class ReLU(Module):
    """The positive part."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.relu(x)


class CrossEntropyLoss(Module):
    """Negative log-likelihood of integer classes; see `functional.cross_entropy`."""

    def __init__(self, ignore_index: int = -100, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        self.ignore_index = ignore_index
        self.reduction: functional.Reduction = reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compare (n, classes) with (n,)."""
        return functional.cross_entropy(
            logits, target, ignore_index=self.ignore_index, reduction=self.reduction
        )


class MSELoss(Module):
    """Squared difference; see `functional.mse_loss`."""

    def __init__(self, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        self.reduction: functional.Reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.mse_loss(x, target, self.reduction)
