"""Channels turned into places and back, and channels in another order."""

from __future__ import annotations

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_tensors
from shardwise.tensor import Tensor

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Return an image `upscale_factor` times as high and wide, made of groups of channels.

    Parameters
    ----------
    input : Tensor, shape (..., channels * upscale_factor ** 2, height, width)
    upscale_factor : int

    Returns
    -------
    Tensor, shape (..., channels, height * upscale_factor, width * upscale_factor)

    References
    ----------
    W. Shi et al., "Real-time single image and video super-resolution using an efficient sub-pixel
    convolutional neural network", arXiv:1609.05158.
    """
    lead, (channels, height, width), r = _image("pixel_shuffle", input, "upscale_factor", upscale_factor)
    if channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle: {r} * {r} must divide the {channels} channels of an input of shape {input.shape}"
        )
    n = len(lead)
    parts = input.reshape(*lead, channels // (r * r), r, r, height, width)
    turned = parts.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return turned.reshape(*lead, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Return an image with more channels, whose places are blocks of places: the way back.

    Parameters
    ----------
    input : Tensor, shape (..., channels, height * downscale_factor, width * downscale_factor)
    downscale_factor : int

    Returns
    -------
    Tensor, shape (..., channels * downscale_factor ** 2, height, width)
    """
    lead, (channels, height, width), r = _image(
        "pixel_unshuffle", input, "downscale_factor", downscale_factor
    )
    if height % r or width % r:
        raise ShapeError(
            f"pixel_unshuffle: {r} must divide height and width of an input of shape {input.shape}"
        )
    n = len(lead)
    parts = input.reshape(*lead, channels, height // r, r, width // r, r)
    turned = parts.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return turned.reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return with channels in the order that takes one of each of `groups` in turn.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, places, ...)
    groups : int
        Divides channels.

    Returns
    -------
    Tensor, shape of `input`
    """
    check_tensors("channel_shuffle", input=input)
    if input.ndim < 3:
        raise ShapeError(
            f"channel_shuffle: input must have shape (batch, channels, places, ...), got {input.shape}"
        )
    batch, channels, *places = input.shape
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise ArgumentError(f"channel_shuffle: groups must divide {channels} channels, got {groups!r}")
    parts = input.reshape(batch, groups, channels // groups, *places)
    return parts.transpose(1, 2).reshape(input.shape)


def _image(
    op: str, input: Tensor, name: str, factor: int
) -> tuple[tuple[int, ...], tuple[int, int, int], int]:
    """Return the leading sizes, those of the image, and the factor."""
    check_tensors(op, input=input)
    if input.ndim < 3:
        raise ShapeError(f"{op}: input must have shape (..., channels, height, width), got {input.shape}")
    if not isinstance(factor, int) or factor < 1:
        raise ArgumentError(f"{op}: {name} must be an integer of at least 1, got {factor!r}")
    channels, height, width = input.shape[-3:]
    return input.shape[:-3], (channels, height, width), factor
