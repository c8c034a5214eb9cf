"""Discrete Fourier transforms: complex ones over any dims, and those between real and half-complex.

The adjoint of a transform is the one in the other direction with the other scale; so the three classes are
each other's gradients.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS, by_size, term

__all__ = ["Fourier", "InverseRealFourier", "Norm", "RealFourier", "flipped"]

Shape = tuple[int, ...]
Norm = Literal["backward", "ortho", "forward"]

_FLIPPED: dict[Norm, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def flipped(norm: Norm) -> Norm:
    """Return the scale of the transform in the other direction that undoes none of this one's."""
    return _FLIPPED[norm]


def _signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Transformed dims must be whole; they keep their letter where they keep their size."""
    shape = shapes[0]
    dims, sizes = _lengths(shape, params)
    before = {d: LETTERS[d] for d in dims}
    fresh = by_size(len(shape), [n for _, n in zip(dims, sizes, strict=True)])
    after = {d: LETTERS[d] if shape[d] == n else c for d, n, c in zip(dims, sizes, fresh, strict=True)}
    return f"{term(len(shape), before)}->{term(len(shape), after)}"


def _lengths(shape: Shape, params: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Return the transformed dims, and the sizes they have in the result."""
    if "dim" in params:
        size = params["size"]
        return [params["dim"] % len(shape)], [size if params.get("to_real") else size // 2 + 1]
    return [d % len(shape) for d in params["dims"]], list(params["sizes"])


def _flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
    """Count five operations per element and halving, as for radix 2; half of it for real numbers."""
    shape = list(shapes[0])
    real = "dim" in params
    dims = [params["dim"]] if real else params["dims"]
    sizes = [params["size"]] if real else params["sizes"]
    total = 0.0
    for dim, n in zip(dims, sizes, strict=True):
        shape[dim] = n
        total += 5.0 * math.prod(shape) * math.log2(max(n, 2))
    return round(total / 2 if real else total)


class Fourier(Function):
    """The transforms of complex (or real) numbers over several dims, cut or filled up to `sizes`."""

    signature = _signature
    precision = "wide"
    linear = "all"
    flops = staticmethod(_flops)

    @staticmethod
    def forward(ctx: Context, a: Array, dims: Shape, sizes: Shape, inverse: bool, norm: Norm) -> Array:
        ctx.shape, ctx.dims, ctx.sizes, ctx.inverse, ctx.norm = a.shape, dims, sizes, inverse, norm
        if len(dims) == 1:
            transform = np.fft.ifft if inverse else np.fft.fft
            return transform(a, sizes[0], dims[0], norm)
        transform_all = np.fft.ifftn if inverse else np.fft.fftn
        return transform_all(a, sizes, dims, norm)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        back = Fourier.apply(
            g, dims=ctx.dims, sizes=ctx.sizes, inverse=not ctx.inverse, norm=flipped(ctx.norm)
        )
        for dim in ctx.dims:
            back = _resized(back, dim, ctx.shape[dim])
        return (back,)


class RealFourier(Function):
    """The first half of the transform of real numbers, whose other half is its conjugate."""

    signature = _signature
    precision = "wide"
    linear = "all"
    flops = staticmethod(_flops)

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int, size: int, norm: Norm) -> Array:
        ctx.length, ctx.dim, ctx.size, ctx.norm = a.shape[dim], dim, size, norm
        return np.fft.rfft(a, size, dim, norm)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        # the inverse counts what lies between the ends twice, for the half that is not there
        once = np.where(_ends(g, ctx.dim, ctx.size), g, 0.5 * g)
        back = InverseRealFourier.apply(
            once, dim=ctx.dim, size=ctx.size, norm=flipped(ctx.norm), to_real=True
        )
        return (_resized(back, ctx.dim, ctx.length),)


class InverseRealFourier(Function):
    """The real numbers of which `a` is the first half of the transform; imaginary ends do not count."""

    signature = _signature
    precision = "wide"
    linear = "all"
    flops = staticmethod(_flops)

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int, size: int, norm: Norm, to_real: bool = True) -> Array:
        ctx.length, ctx.dim, ctx.size, ctx.norm = a.shape[dim], dim, size, norm
        return np.fft.irfft(a, size, dim, norm)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        half = RealFourier.apply(g, dim=ctx.dim, size=ctx.size, norm=flipped(ctx.norm))
        back = np.where(_ends(half, ctx.dim, ctx.size), half, 2.0 * half)
        return (_resized(back, ctx.dim, ctx.length),)


def _ends(half: Any, dim: int, size: int) -> Any:
    """Return where the first and, if `size` is even, the last place along `dim` are."""
    places = np.arange(half.shape[dim], like=half)
    ends = np.logical_or(places == 0, places * 2 == size)
    return np.reshape(ends, tuple([-1 if d == dim else 1 for d in range(half.ndim)]))


def _resized(a: Any, dim: int, length: int) -> Any:
    """Cut a dim, or fill it up with zeros: the adjoint of filling it up, or cutting it."""
    have = a.shape[dim]
    if have > length:
        return a[(slice(None),) * dim + (slice(0, length),)]
    if have < length:
        missing = (*a.shape[:dim], length - have, *a.shape[dim + 1 :])
        return np.concatenate([a, np.zeros_like(a, shape=missing)], axis=dim)
    return a
