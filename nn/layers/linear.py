"""Matrix products with learned weights."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.nn import functional, init
from shardwise.nn.check import check_sizes
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, empty

__all__ = ["Bilinear", "Linear"]


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
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        make = partial(empty, dtype=np.float32 if dtype is None else dtype, device=device)
        self.weight = Parameter(make(out_features, in_features))
        self.register_parameter("bias", Parameter(make(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Bilinear(Module):
    """``input1 @ weight[o] @ input2 + bias[o]`` for every output ``o``.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
    bias : bool
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter, shape (out, in1, in2)
        Uniform in ±1/sqrt(in1) at first.
    bias : Parameter, shape (out,), or None
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        check_sizes(
            "Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features
        )
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        make = partial(empty, dtype=np.float32 if dtype is None else dtype, device=device)
        self.weight = Parameter(make(out_features, in1_features, in2_features))
        self.register_parameter("bias", Parameter(make(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(max(self.in1_features, 1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Map (..., in1) and (..., in2) to (..., out)."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
