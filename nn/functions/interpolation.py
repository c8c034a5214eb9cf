"""Images of another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.nn.functions.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from shardwise.nn.functions.spatial import Sizes, per_dim
from shardwise.tensor import Tensor
from shardwise.tensor.ops.resampling import Resample, Sampling

__all__ = ["Factors", "InterpolationMode", "interpolate", "upsample"]

InterpolationMode: TypeAlias = Literal[
    "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"
]
Factors: TypeAlias = float | Sequence[float]
"""One factor for all spatial dims, or one for each."""

_KINDS: dict[str, tuple[Literal["nearest", "nearest-exact", "linear", "cubic"], tuple[int, ...]]] = {
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest-exact", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
}
_MEANS = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def interpolate(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Factors | None = None,
    mode: InterpolationMode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return the input sampled at another number of places.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, places, ...), one to three spatial dims
    size : int or sequence of int, optional
        Of the result's spatial dims; this or `scale_factor`.
    scale_factor : float or sequence of float, optional
        The result has ``floor(n * scale_factor)`` places.
    mode : str
        ``"nearest"``, ``"nearest-exact"`` (which rounds from the middle of places), ``"linear"``,
        ``"bilinear"``, ``"trilinear"`` for one, two and three dims, ``"bicubic"``, or ``"area"``, the means
        of `adaptive_avg_pool2d`.
    align_corners : bool, optional
        Whether the middles of the corner places stay, or the corners of the image (the default). For
        the linear and cubic modes.
    recompute_scale_factor : bool, optional
        Take the factor from the sizes before and after, instead of as it was given.
    antialias : bool
        Weigh as many neighbours as a smaller image skips. For ``"bilinear"`` and ``"bicubic"``.

    Returns
    -------
    Tensor, shape (batch, channels, *size)

    Raises
    ------
    ShapeError, ArgumentError
        A mode that does not fit the number of dims, or options that do not go together.
    """
    check_tensors("interpolate", input=input)
    ndim = input.ndim - 2
    if ndim not in (1, 2, 3):
        raise ShapeError(
            "interpolate: input must have shape (batch, channels, places, ...) with one to three spatial "
            f"dims, got {input.shape}"
        )
    _check_options(mode, ndim, align_corners, antialias)
    sizes, factors = _sizes(input.shape[2:], size, scale_factor)
    if mode != "area" and (min(sizes) < 1 or min(input.shape[1:]) < 1):
        raise ShapeError(
            f"interpolate: an input of shape {input.shape} cannot come out with spatial sizes {sizes}; only "
            "the batch may be empty"
        )
    if recompute_scale_factor:
        if size is not None:
            raise ArgumentError("interpolate: recompute_scale_factor goes with scale_factor, not with size")
        factors = (None,) * ndim
    if mode == "area":
        return _MEANS[ndim](input, sizes)
    kind, align = _KINDS[mode][0], bool(align_corners)
    if not kind.startswith("nearest"):
        check_dtypes("interpolate", input=input)
    # PyTorch's way: in these modes a dim that keeps its size keeps its values, whatever the factor.
    same = kind == "linear" or antialias or (kind == "nearest" and ndim == 2)
    samplings = tuple(
        Sampling(kind, n, m, _step(n, m, factor, align, same), align, antialias)
        for n, m, factor in zip(input.shape[2:], sizes, factors, strict=True)
    )
    return Resample.apply(input, samplings=samplings)


def upsample(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Factors | None = None,
    mode: InterpolationMode = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Return the input sampled at another number of places; the old name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def _check_options(mode: str, ndim: int, align_corners: bool | None, antialias: bool) -> None:
    if mode != "area" and mode not in _KINDS:
        raise ArgumentError(f"interpolate: mode must be one of {', '.join(_KINDS)}, area; got {mode!r}")
    if mode != "area" and ndim not in _KINDS[mode][1]:
        fitting = [name for name, (_, dims) in _KINDS.items() if ndim in dims]
        raise ShapeError(
            f"interpolate: mode {mode!r} does not fit {ndim} spatial dims; wanted {', '.join(fitting)}, area"
        )
    if align_corners is not None and (mode == "area" or mode.startswith("nearest")):
        raise ArgumentError(f"interpolate: align_corners is for linear and cubic modes, not for {mode!r}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"interpolate: antialias is for 'bilinear' and 'bicubic', not for {mode!r}")


def _sizes(
    source: tuple[int, ...], size: Sizes | None, scale_factor: Factors | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Return the sizes of the result, and the factors if these were given."""
    ndim = len(source)
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: give size or scale_factor, one of them")
    if size is not None or scale_factor is None:
        return per_dim("interpolate", "size", 1 if size is None else size, ndim), (None,) * ndim
    given = tuple(scale_factor) if isinstance(scale_factor, Sequence) else (scale_factor,) * ndim
    if len(given) != ndim or not all(isinstance(f, (int, float)) and f > 0 for f in given):
        raise ArgumentError(
            f"interpolate: scale_factor must be a positive number or {ndim} of them, got {scale_factor!r}"
        )
    return tuple(math.floor(n * f) for n, f in zip(source, given, strict=True)), given


def _step(source: int, target: int, factor: float | None, align: bool, same: bool) -> float:
    """Return how far apart neighbouring places of the result lie in the source."""
    if source == target and (align or same):
        return 1.0
    if align:
        return (source - 1) / (target - 1) if target > 1 else 0.0
    return source / target if factor is None else 1.0 / factor
