"""Dropout, whose masks do not depend on the number of ranks."""

from __future__ import annotations

import math

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_dtypes, check_reals, check_tensors
from shardwise.nn.functions.in_place import placed
from shardwise.tensor import Tensor, next_draw
from shardwise.tensor.ops import dropout as op

__all__ = [
    "alpha_dropout", "check_probability", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "feature_alpha_dropout",
]  # fmt: skip

_SELU_LIMIT = -1.7580993408473766  # of selu at -inf: what a dropped element becomes, before its rescaling


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability `p` and scale the others by ``1 / (1 - p)``.

    The mask depends on the seed, the calling module's path and the element's place in the global
    batch, not on the number of ranks (see `shardwise.tensor.random`).

    Parameters
    ----------
    input : Tensor, any shape, floating
        The first dim is the batch, or the batch merged with the dims behind it.
    p : float
    training : bool
        If not, `input` is returned as it is.
    inplace : bool
        As for `relu`.
    """
    check_probability("dropout", "p", p)
    check_tensors("dropout", input=input)
    check_dtypes("dropout", input=input)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return placed("dropout", input, input * 0.0, inplace)
    draw = next_draw()
    result = op.Dropout.apply(
        input, p=float(p), seed=draw.seed, stream=draw.stream, offset=draw.offset(input.shape)
    )
    return placed("dropout", input, result, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels with probability `p` and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    input : Tensor, shape (n, channels, length) or (channels, length), real floating
        A channel's bit depends on its place in the global batch, as for `dropout`.
    p : float
    training : bool
        If not, `input` is returned as it is.
    inplace : bool
        As for `relu`.

    Raises
    ------
    ShapeError
        For any other number of dims.
    """
    return _dropped_channels("dropout1d", input, p, training, inplace, (2, 3), batched=3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of images, (n, channels, height, width); see `dropout1d`.

    Three dims are taken for (n, channels, length), as in PyTorch.
    """
    return _dropped_channels("dropout2d", input, p, training, inplace, (3, 4), batched=3)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of volumes, (n, channels, depth, height, width) or without n; see `dropout1d`."""
    return _dropped_channels("dropout3d", input, p, training, inplace, (4, 5), batched=5)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Set elements to the limit of `selu` with probability `p`, and rescale (Klambauer et al. 2017).

    Mean 0 and variance 1 stay as they are.

    Parameters
    ----------
    input : Tensor, any shape, real floating
    p : float
    training : bool
        If not, which is the default here, `input` is returned as it is.
    inplace : bool
        As for `relu`.
    """
    return _alpha_dropped("alpha_dropout", input, p, training, inplace, None)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Do `alpha_dropout` of whole channels, shape (n, channels, ...)."""
    check_tensors("feature_alpha_dropout", input=input)
    if input.ndim < 2:
        raise ShapeError(
            f"feature_alpha_dropout: input must have shape (n, channels, ...), got {input.shape}"
        )
    return _alpha_dropped("feature_alpha_dropout", input, p, training, inplace, 2)


def check_probability(op: str, name: str, p: float) -> None:
    """Raise ArgumentError unless `p` is between 0 and 1."""
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{op}: {name} must be a probability between 0 and 1, got {p}")


def _dropped_channels(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, ndims: tuple[int, int], batched: int
) -> Tensor:
    check_probability(name, "p", p)
    check_reals(name, input=input)
    if input.ndim not in ndims:
        raise ShapeError(f"{name}: input must have {ndims[0]} or {ndims[1]} dims, got shape {input.shape}")
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return placed(name, input, input * 0.0, inplace)
    dims = 2 if input.ndim >= batched else 1
    draw = next_draw()
    offset = draw.offset(input.shape[:2]) if dims == 2 else 0  # without a batch it is no part of one
    result = op.Keep.apply(
        input,
        p=float(p),
        scale=1.0 / (1.0 - p),
        shift=0.0,
        dropped=0.0,
        dims=dims,
        seed=draw.seed,
        stream=draw.stream,
        offset=offset,
    )
    return placed(name, input, result, inplace)


def _alpha_dropped(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, dims: int | None
) -> Tensor:
    check_probability(name, "p", p)
    check_reals(name, input=input)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return placed(name, input, input * 0.0, inplace)
    dims = input.ndim if dims is None else dims
    scale = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * _SELU_LIMIT * _SELU_LIMIT))
    shift = -scale * p * _SELU_LIMIT
    draw = next_draw()
    result = op.Keep.apply(
        input,
        p=float(p),
        scale=scale,
        shift=shift,
        dropped=scale * _SELU_LIMIT + shift,
        dims=dims,
        seed=draw.seed,
        stream=draw.stream,
        offset=draw.offset(input.shape[:dims]),
    )
    return placed(name, input, result, inplace)
