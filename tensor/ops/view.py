"""Ops that rearrange dims without moving data: their results are views, where strides allow it."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.memory.transposition import compact
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS, by_size, term
from shardwise.tensor.signature import Part

__all__ = ["CopiedReshape", "Expand", "Permute", "Reinterpret", "Reshape", "Split", "Unbind", "keeps_memory"]


def keeps_memory(shape: Shape, strides: Shape, wanted: Shape) -> bool:
    """Tell whether an array can be seen in the shape `wanted`, of the same size, without a copy.

    Parameters
    ----------
    shape, strides : tuple of int
        Of the array.
    wanted : tuple of int
    """
    if 0 in shape:
        return True
    runs: list[int] = []  # sizes of what lies evenly in memory
    outer = 0
    for n, stride in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and outer == n * stride:
            runs[-1] *= n
        else:
            runs.append(n)
        outer = stride
    sizes = iter(wanted)
    for run in runs:
        product = 1
        while product < run:
            product *= next(sizes)
        if product != run:
            return False
    return True


def _reshape_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Keep the leading dims that both shapes share; the others must be whole."""
    before, after = shapes[0], params["shape"]
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    head = LETTERS[:same]
    fresh = iter(LETTERS[same:])
    left = "".join(f"[{next(fresh)}]" for _ in before[same:])
    right = "".join(f"[{next(fresh)}]" for _ in after[same:])
    return f"{head}{left}->{head}{right}"


def _part_shape(
    params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
) -> dict[str, Any]:
    return {**params, "shape": outputs[0].shape}


class Reshape(Function):
    signature = _reshape_signature
    view = True
    linear = "all"
    localize = staticmethod(_part_shape)

    @staticmethod
    def forward(ctx: Context, a: Array, shape: Shape) -> Array:
        ctx.shape = a.shape
        return np.reshape(a, shape)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.reshape(g, ctx.shape),)


class CopiedReshape(Reshape):
    """A reshape that the strides do not allow without a copy, which then is no view."""

    view = False
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, shape: Shape) -> Array:
        ctx.shape = a.shape
        return np.reshape(compact(a), shape)


def _reinterpret_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    if not ndim:
        return "->"
    head = term(ndim - 1)
    return f"{head}[{LETTERS[ndim - 1]}]->{head}[{LETTERS[ndim]}]"


class Reinterpret(Function):
    """The same bits as another dtype; the last dim grows or shrinks with the size of the elements."""

    signature = _reinterpret_signature
    view = True

    @staticmethod
    def forward(ctx: Context, a: Array, dtype: Any) -> Array:
        return a.view(dtype)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (None,)


def _permute_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    letters = term(len(shapes[0]))
    return f"{letters}->{''.join(letters[d] for d in params['dims'])}"


class Permute(Function):
    signature = _permute_signature
    view = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, dims: tuple[int, ...]) -> Array:
        ctx.dims = dims
        return np.transpose(a, dims)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        inverse = [0] * len(ctx.dims)
        for i, d in enumerate(ctx.dims):
            inverse[d % len(ctx.dims)] = i
        return (np.transpose(g, tuple(inverse)),)


def _expand_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    before, after = shapes[0], params["shape"]
    letters = term(len(after))
    kept = letters[len(after) - len(before) :]
    inner = "".join("1" if n == 1 else c for n, c in zip(before, kept, strict=True))
    return f"{inner}->{letters}"


class Expand(Function):
    signature = _expand_signature
    view = True
    linear = "all"
    localize = staticmethod(_part_shape)

    @staticmethod
    def forward(ctx: Context, a: Array, shape: Shape) -> Array:
        ctx.shape = a.shape
        return np.broadcast_to(a, shape)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (unbroadcast(g, ctx.shape),)


def _split_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params["dim"] % ndim
    first, *rest = by_size(ndim, (-1, *params["sizes"]))
    return f"{term(ndim, {dim: first})}->{','.join(term(ndim, {dim: c}) for c in rest)}"


class Split(Function):
    """Cut along a dim into pieces of given sizes."""

    signature = _split_signature
    view = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, sizes: tuple[int, ...], dim: int) -> tuple[Array, ...]:
        ctx.dim = dim
        pieces, start = [], 0
        for size in sizes:
            pieces.append(a[(slice(None),) * (dim % a.ndim) + (slice(start, start + size),)])
            start += size
        return tuple(pieces)

    @staticmethod
    def backward(ctx: Context, *grads: Array) -> Gradients:
        return (np.concatenate(grads, axis=ctx.dim),)


def _unbind_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params["dim"] % ndim
    letters = term(ndim)
    rest = letters[:dim] + letters[dim + 1 :]
    return f"{term(ndim, {dim: letters[dim]})}->{','.join([rest] * shapes[0][dim])}"


class Unbind(Function):
    """Cut along a dim into slices without that dim."""

    signature = _unbind_signature
    view = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int) -> tuple[Array, ...]:
        ctx.dim = dim
        # "..." keeps a slice without dims an array that looks at the memory
        return tuple([a[(slice(None),) * (dim % a.ndim) + (i, ...)] for i in range(a.shape[dim])])

    @staticmethod
    def backward(ctx: Context, *grads: Array) -> Gradients:
        return (np.stack(grads, axis=ctx.dim),)
