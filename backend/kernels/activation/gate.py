"""Gated units: one half of the input lets the other through; and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.pointwise.pointwise import WORTH_FUSING, pointwise_kernel

__all__ = [
    "glu_backward", "glu_forward", "silu_gate_backward", "silu_gate_forward", "swiglu_backward",
    "swiglu_forward",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.activation.gate_cpu"
_CUDA = "shardwise.backend.kernels.activation.gate_cuda"


def _glu_forward(x: Array, dim: int) -> Array:
    """``a * sigmoid(b)`` for the halves `a` and `b` of `x` along `dim`, which is even.

    References
    ----------
    Y. N. Dauphin et al., "Language modeling with gated convolutional networks", ICML 2017.
    """
    a, b = _halves(x, dim)
    return a * special.sigmoid(b)


def _glu_backward(g: Array, x: Array, dim: int) -> Array:
    """The gradient of :func:`glu_forward` at `x`, times `g`."""
    a, b = _halves(x, dim)
    s = special.sigmoid(b)
    through = g * s
    return np.concatenate([through, through * a * (1.0 - s)], axis=dim)


def _swiglu_forward(x: Array) -> Array:
    """``silu(a) * b`` for the halves `a` and `b` of the last dim of `x`, which is even.

    References
    ----------
    N. Shazeer, "GLU variants improve transformer", arXiv:2002.05202.
    """
    a, b = _halves(x, -1)
    return _silu(a) * b


def _swiglu_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`swiglu_forward` at `x`, times `g`."""
    a, b = _halves(x, -1)
    return np.concatenate([g * b * _silu_slope(a), g * _silu(a)], axis=-1)


def _silu_gate_forward(gate: Array, x: Array) -> Array:
    """``silu(gate) * x``; with a gradient for `x`, the gradient with respect to it."""
    return np.maximum(gate, -1000.0) * special.sigmoid(gate) * x


def _silu_gate_backward(g: Array, gate: Array, x: Array) -> Array:
    """The gradient of :func:`silu_gate_forward` with respect to `gate`, times `g`."""
    cut = np.clip(gate, -45.0, 45.0)
    return g * x * (special.sigmoid(cut) * (1.0 + cut * special.sigmoid(-cut)))


def _silu(x: Any) -> Any:
    """SiLU by a formula that may be differentiated itself; see ``silu.py`` for its limits."""
    return np.maximum(x, -1000.0) * special.sigmoid(x)


def _silu_slope(x: Any) -> Any:
    cut = np.clip(x, -45.0, 45.0)
    return special.sigmoid(cut) * (1.0 + cut * special.sigmoid(-cut))


def _halves(x: Any, dim: int) -> tuple[Any, Any]:
    dim %= x.ndim
    half, front = x.shape[dim] // 2, (slice(None),) * dim
    return x[(*front, slice(None, half))], x[(*front, slice(half, None))]


glu_forward = Kernel(
    _glu_forward, f"{_FUSED}:glu_forward", arrays=1, least=WORTH_FUSING, cuda=f"{_CUDA}:glu_forward"
)
glu_backward = Kernel(
    _glu_backward, f"{_FUSED}:glu_backward", arrays=2, least=WORTH_FUSING, cuda=f"{_CUDA}:glu_backward"
)
swiglu_forward = Kernel(
    _swiglu_forward, f"{_FUSED}:swiglu_forward", arrays=1, least=WORTH_FUSING, cuda=f"{_CUDA}:swiglu_forward"
)
swiglu_backward = Kernel(
    _swiglu_backward,
    f"{_FUSED}:swiglu_backward",
    arrays=2,
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:swiglu_backward",
)
silu_gate_forward = pointwise_kernel(_silu_gate_forward, f"{_FUSED}:silu_gate_forward", arrays=2)
silu_gate_backward = pointwise_kernel(_silu_gate_backward, f"{_FUSED}:silu_gate_backward", arrays=3)
