"""The cross product of vectors with three elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.letter import LETTERS

__all__ = ["Cross", "cross"]

Shape = tuple[int, ...]


def _signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    whole = params["dim"] % ndim
    result = np.broadcast_shapes(*shapes)
    terms = [
        "".join(
            f"[{c}]" if d == whole else "1" if n == 1 and m != 1 else c
            for d, (c, n, m) in enumerate(zip(LETTERS, shape, result, strict=False))
        )
        for shape in (*shapes, result)
    ]
    return f"{terms[0]},{terms[1]}->{terms[2]}"


class Cross(Function):
    """``a x b`` along `dim`, of size three; the other dims broadcast."""

    signature = _signature
    linear = "each"
    broadcasts = True

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        return 3 * int(np.prod(np.broadcast_shapes(*shapes)))

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array, dim: int) -> Array:
        ctx.dim = dim
        ctx.save(a if ctx.need[1] else None, b if ctx.need[0] else None)
        return np.roll(a, -1, dim) * np.roll(b, -2, dim) - np.roll(a, -2, dim) * np.roll(b, -1, dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        da = Cross.apply(conj(b), g, dim=ctx.dim) if ctx.need[0] else None
        return da, Cross.apply(g, conj(a), dim=ctx.dim) if ctx.need[1] else None


def cross(a: Any, b: Any, dim: int | None = None) -> Any:
    """Return ``a x b`` along `dim`: the first dim of size three, if none is given."""
    shapes = tuple(np.shape(a)), tuple(np.shape(b))
    if len(shapes[0]) != len(shapes[1]):
        raise ShapeError(f"cross: wanted as many dims of both, got shapes {shapes[0]} and {shapes[1]}")
    if dim is None:
        if 3 not in shapes[0]:
            raise ShapeError(f"cross: wanted a dim of size 3, got shapes {shapes[0]} and {shapes[1]}")
        dim = shapes[0].index(3)
    dim = counted_dim("cross", dim, len(shapes[0]))
    if not shapes[0] or shapes[0][dim] != 3 or shapes[1][dim] != 3:
        raise ShapeError(f"cross: wanted size 3 along dim {dim}, got shapes {shapes[0]} and {shapes[1]}")
    return Cross.apply(a, b, dim=dim)
