"""Smooth activations, and those of straight lines that stand for them."""

from __future__ import annotations

from typing import Literal

from shardwise.backend.errors import ArgumentError
from shardwise.nn.check import check_dtypes, check_reals, check_tensors
from shardwise.nn.functions.in_place import placed
from shardwise.tensor import Tensor
from shardwise.tensor.ops import activation, piecewise, smooth

__all__ = [
    "gelu", "hardshrink", "hardsigmoid", "hardswish", "logsigmoid", "mish", "sigmoid", "silu", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink",
]  # fmt: skip


def gelu(input: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Return ``x * Phi(x)``, exactly or by the tanh approximation (Hendrycks and Gimpel 2016).

    Parameters
    ----------
    input : Tensor, any shape, real floating
    approximate : "none" or "tanh"
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    check_reals("gelu", input=input)
    return activation.GeluTanh.apply(input) if approximate == "tanh" else activation.Gelu.apply(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``x * sigmoid(x)``, also called swish (Elfwing et al. 2017).

    Parameters
    ----------
    input : Tensor, any shape, real floating
        At -inf the result and its slope are 0.
    inplace : bool
        As for `relu`.
    """
    check_reals("silu", input=input)
    return placed("silu", input, smooth.Silu.apply(input), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``x * tanh(softplus(x))`` (Misra 2019).

    Parameters
    ----------
    input : Tensor, any shape, real floating
        At -inf the result and its slope are 0.
    inplace : bool
        As for `relu`.
    """
    check_reals("mish", input=input)
    return placed("mish", input, smooth.Mish.apply(input), inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return ``log(1 + exp(beta * x)) / beta``, a smooth `relu`.

    Parameters
    ----------
    input : Tensor, any shape, real floating
    beta : float
        Not 0.
    threshold : float
        Where ``beta * x`` is above it, the result is ``x``.
    """
    check_reals("softplus", input=input)
    if beta == 0:
        raise ArgumentError("softplus: beta must not be 0")
    return smooth.Softplus.apply(input, beta=float(beta), threshold=float(threshold))


def softsign(input: Tensor) -> Tensor:
    """Return ``x / (1 + |x|)``; -1 and 1 at infinity."""
    check_reals("softsign", input=input)
    return smooth.SoftSign.apply(input)


def logsigmoid(input: Tensor) -> Tensor:
    """Return ``log(1 / (1 + exp(-x)))``, without overflow on either side."""
    check_reals("logsigmoid", input=input)
    return smooth.LogSigmoid.apply(input)


def sigmoid(input: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-x))``."""
    check_tensors("sigmoid", input=input)
    check_dtypes("sigmoid", input=input)
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    check_tensors("tanh", input=input)
    check_dtypes("tanh", input=input)
    return input.tanh()


def tanhshrink(input: Tensor) -> Tensor:
    """Return ``x - tanh(x)``."""
    check_reals("tanhshrink", input=input)
    return smooth.TanhShrink.apply(input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return elements moved towards 0 by `lambd`, and 0 for those nearer to it than that.

    Parameters
    ----------
    input : Tensor, any shape, real floating
    lambd : float
        At least 0. The slope at ``-lambd`` and ``lambd`` is 0.
    """
    check_reals("softshrink", input=input)
    if not lambd >= 0:
        raise ArgumentError(f"softshrink: lambd must be at least 0, got {lambd}")
    return piecewise.SoftShrink.apply(input, size=float(lambd))


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return elements above `lambd` or below ``-lambd``, and 0 for the others, where the slope is 0."""
    check_reals("hardshrink", input=input)
    return piecewise.HardShrink.apply(input, size=float(lambd))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``x / 6 + 1 / 2``, kept between 0 and 1. `inplace` is as for `relu`."""
    check_reals("hardsigmoid", input=input)
    return placed("hardsigmoid", input, piecewise.HardSigmoid.apply(input), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``x * hardsigmoid(x)`` (Howard et al. 2019). `inplace` is as for `relu`."""
    check_reals("hardswish", input=input)
    return placed("hardswish", input, piecewise.HardSwish.apply(input), inplace)
