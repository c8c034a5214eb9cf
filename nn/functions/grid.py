"""Images sampled at any places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal, TypeAlias

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_reals
from shardwise.tensor import Tensor, no_grad, where

__all__ = ["GridMode", "GridPadding", "affine_grid", "grid_sample"]

GridMode: TypeAlias = Literal["bilinear", "nearest", "bicubic"]
GridPadding: TypeAlias = Literal["zeros", "border", "reflection"]


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return where an affine map takes the places of an image, for `grid_sample`.

    Parameters
    ----------
    theta : Tensor, shape (batch, 2, 3) or (batch, 3, 4)
        The maps, of (x, y, 1) or (x, y, z, 1).
    size : sequence of int
        Shape of the image, (batch, channels, height, width) or (batch, channels, depth, height, width).
    align_corners : bool, optional
        Whether -1 and 1 are the middles of the corner places, or the edges of the image (the default).

    Returns
    -------
    Tensor, shape (batch, height, width, 2) or (batch, depth, height, width, 3)
    """
    check_reals("affine_grid", theta=theta)
    batch, _, *places = size
    ndim = len(places)
    if ndim not in (2, 3) or theta.shape != (batch, ndim, ndim + 1) or min(places) < 1:
        raise ShapeError(
            "affine_grid: wanted theta (batch, 2, 3) and size (batch, channels, height, width), or "
            f"(batch, 3, 4) and one dim more; got {theta.shape} and {tuple(size)}"
        )
    axes = [_middles(n, bool(align_corners), theta.data) for n in places]
    ones = np.ones_like(theta.data, order="C", shape=tuple(places))
    columns = [
        ones * np.reshape(axis, (-1, *(1,) * (ndim - d - 1))) for d, axis in reversed(list(enumerate(axes)))
    ]
    points = np.reshape(np.stack([*columns, ones], axis=-1), (-1, ndim + 1))
    return (theta.wrap(points) @ theta.transpose(1, 2)).reshape(batch, *places, ndim)


def _middles(n: int, align: bool, like: Array) -> Array:
    """The middles of `n` places between -1 and 1."""
    at = np.arange(n, like=like).astype(like.dtype)
    if align:
        return at * (2.0 / (n - 1)) - 1.0 if n > 1 else at
    return (at * 2.0 + 1.0) * (1.0 / n) - 1.0


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: GridMode = "bilinear",
    padding_mode: GridPadding = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return an image sampled at the places of a grid.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (batch, channels, depth, height, width)
    grid : Tensor, shape (batch, *size, 2) or (batch, *size, 3)
        Per place of the result where it is in the image: (x, y) or (x, y, z), from -1 to 1 inside.
    mode : {"bilinear", "nearest", "bicubic"}
        Which neighbours count; bicubic for two spatial dims. "nearest" gives `grid` no gradient.
    padding_mode : {"zeros", "border", "reflection"}
        What stands outside: zeros, the nearest place of the border, or the image mirrored at it.
    align_corners : bool, optional
        Whether -1 and 1 are the middles of the corner places, or the edges of the image (the default).

    Returns
    -------
    Tensor, shape (batch, channels, *size)

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes, dtypes or options that do not fit together.
    """
    check_reals("grid_sample", input=input, grid=grid)
    ndim = input.ndim - 2
    wanted = (*input.shape[:1], ndim)
    if ndim not in (2, 3) or grid.ndim != input.ndim or (grid.shape[0], grid.shape[-1]) != wanted:
        raise ShapeError(
            "grid_sample: wanted input (batch, channels, height, width) and grid (batch, height, width, "
            f"2), or one spatial dim more; got {input.shape} and {grid.shape}"
        )
    if min(input.shape[2:]) < 1:
        raise ShapeError(f"grid_sample: there is no place to sample in an input of shape {input.shape}")
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and ndim == 3):
        raise ArgumentError(
            f"grid_sample: mode must be 'bilinear', 'nearest' or, for images, 'bicubic'; got {mode!r}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(
            f"grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got {padding_mode!r}"
        )
    align = bool(align_corners)
    taps: list[list[tuple[Tensor, Tensor | None]]] = []
    for d, n in enumerate(input.shape[2:]):
        at = _place(grid[..., ndim - 1 - d], n, align)
        if mode == "bicubic":
            taps.append([(_folded(p, n, padding_mode, align), w) for p, w in _cubic_neighbours(at)])
        else:
            at = _folded(at, n, padding_mode, align)
            taps.append(_neighbours(at, mode))
    total: Tensor | None = None
    for corner in product(*taps):
        part = _taken(input, [place for place, _ in corner])
        for _, weight in corner:
            if weight is not None:
                part = part * weight.unsqueeze(-1)
        total = part if total is None else total + part
    assert total is not None
    return total.permute(0, ndim + 1, *range(1, ndim + 1))


def _place(at: Tensor, n: int, align: bool) -> Tensor:
    """Return coordinates from -1 to 1 as places of a dim of `n`."""
    return (at + 1.0) * (0.5 * (n - 1)) if align else ((at + 1.0) * n - 1.0) * 0.5


def _folded(at: Tensor, n: int, padding_mode: str, align: bool) -> Tensor:
    """Return places outside moved inside, unless zeros stand there."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, span = (0.0, float(n - 1)) if align else (-0.5, float(n))
        if span == 0.0:
            return at * 0.0
        off = (at - low).abs()
        rest = off % span
        odd = ((off.detach() - rest.detach()) / span).round() % 2.0
        at = where(odd == 0.0, rest, span - rest) + low
    inside = (at > 0.0) & (at < float(n - 1))
    return where(inside, at, at.detach().clip(0.0, float(n - 1)))


def _neighbours(at: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """Return the places beside `at`, and their weights."""
    if mode == "nearest":
        return [(at.detach().round(), None)]
    first = at.detach().floor()
    rest = at - first
    return [(first, 1.0 - rest), (first + 1.0, rest)]


def _cubic_neighbours(at: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the four places around `at`, and their weights by cubic convolution (Keys 1981), slope -0.75."""
    first = at.detach().floor()
    t, slope = at - first, -0.75

    def near(x: Tensor) -> Tensor:
        return ((slope + 2.0) * x - (slope + 3.0)) * x * x + 1.0

    def far(x: Tensor) -> Tensor:
        return ((slope * x - 5.0 * slope) * x + 8.0 * slope) * x - 4.0 * slope

    weights = (far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t))
    return [(first + (i - 1.0), weight) for i, weight in enumerate(weights)]


def _taken(input: Tensor, places: list[Tensor]) -> Tensor:
    """Return the elements at whole places, channels last; zeros for places outside."""
    with no_grad():
        inside, index = None, []
        for place, n in zip(places, input.shape[2:], strict=True):
            here = (place >= 0.0) & (place <= float(n - 1))  # also false for NaN
            inside = here if inside is None else inside & here
            index.append(where(here, place, 0.0).astype(np.int64))
    batch = input.shape[0]
    rows = input.wrap(np.reshape(np.arange(batch, like=input.data), (batch, *(1,) * (places[0].ndim - 1))))
    channels_last = input.permute(0, *range(2, input.ndim), 1)
    found = channels_last[(rows, *index)]
    assert inside is not None
    return where(inside.unsqueeze(-1), found, 0.0)
