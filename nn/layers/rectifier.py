"""Activations that treat negative and positive inputs differently, as layers."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.nn import functional
from shardwise.nn import init as fill
from shardwise.nn.check import check_sizes
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, empty

__all__ = [
    "CELU", "ELU", "SELU", "Hardtanh", "LeakyReLU", "PReLU", "RReLU", "ReLU", "ReLU6", "Threshold",
]  # fmt: skip


class ReLU(Module):
    """The positive part; see `functional.relu`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.relu(input, self.inplace)

    def extra_repr(self) -> str:
        """Show whether it is in place."""
        return "inplace=True" if self.inplace else ""


class Hardtanh(Module):
    """Values kept between two bounds; see `functional.hardtanh`."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Show the bounds."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Module):
    """Values kept between 0 and 6; see `functional.relu6`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        """Show whether it is in place."""
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """A value in the place of all that is not above a threshold; see `functional.threshold`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Show threshold and value."""
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class LeakyReLU(Module):
    """A small slope for negative inputs; see `functional.leaky_relu`."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Show the slope."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """A learned slope for negative inputs; see `functional.prelu`.

    Parameters
    ----------
    num_parameters : int
        1, or the number of channels (dim 1 of the input).
    init : float
        First value of all slopes.
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter, shape (num_parameters,)
    """

    weight: Parameter

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: str | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        check_sizes("PReLU", num_parameters=num_parameters)
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty(num_parameters, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all slopes to the first value."""
        fill.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Show the number of slopes."""
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """Random slopes for negative inputs while training; see `functional.rrelu`."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Show the bounds of the slopes."""
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """An exponential for negative inputs; see `functional.elu`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Show alpha."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class SELU(Module):
    """ELU with the constants that keep mean and variance; see `functional.selu`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.selu(input, self.inplace)

    def extra_repr(self) -> str:
        """Show whether it is in place."""
        return "inplace=True" if self.inplace else ""


class CELU(Module):
    """ELU with a slope of 1 at 0 for every alpha; see `functional.celu`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Show alpha."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")
