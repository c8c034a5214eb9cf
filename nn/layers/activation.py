"""Smooth activations, and those of straight lines that stand for them, as layers."""

from __future__ import annotations

from typing import Literal

from shardwise.nn import functional
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = [
    "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "LogSigmoid", "Mish", "SiLU", "Sigmoid", "Softplus",
    "Softshrink", "Softsign", "Tanh", "Tanhshrink",
]  # fmt: skip


class GELU(Module):
    """``x * Phi(x)``; see `functional.gelu`."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        super().__init__()
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Show the variant."""
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """``x * sigmoid(x)``; see `functional.silu`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.silu(input, self.inplace)

    def extra_repr(self) -> str:
        """Show whether it is in place."""
        return "inplace=True" if self.inplace else ""


class Mish(Module):
    """``x * tanh(softplus(x))``; see `functional.mish`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.mish(input, self.inplace)

    def extra_repr(self) -> str:
        """Show whether it is in place."""
        return "inplace=True" if self.inplace else ""


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``; see `functional.softplus`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Show beta and threshold."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softsign(Module):
    """``x / (1 + |x|)``; see `functional.softsign`."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.softsign(input)


class LogSigmoid(Module):
    """The logarithm of the sigmoid; see `functional.logsigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.logsigmoid(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``; see `functional.sigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent; see `functional.tanh`."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.tanh(input)


class Tanhshrink(Module):
    """``x - tanh(x)``; see `functional.tanhshrink`."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.tanhshrink(input)


class Softshrink(Module):
    """Elements moved towards 0; see `functional.softshrink`."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Show how far."""
        return str(self.lambd)


class Hardshrink(Module):
    """Zeros for elements near 0; see `functional.hardshrink`."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Show how near."""
        return str(self.lambd)


class Hardsigmoid(Module):
    """A sigmoid of straight lines; see `functional.hardsigmoid`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Show whether it is in place."""
        return "inplace=True" if self.inplace else ""


class Hardswish(Module):
    """``x * hardsigmoid(x)``; see `functional.hardswish`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply to each element."""
        return functional.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Show whether it is in place."""
        return "inplace=True" if self.inplace else ""
