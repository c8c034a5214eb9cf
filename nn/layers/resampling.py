"""Layers that change the size of images."""

from __future__ import annotations

from collections.abc import Sequence

from shardwise.nn.functions.interpolation import Factors, InterpolationMode, interpolate
from shardwise.nn.functions.shuffle import channel_shuffle, pixel_shuffle, pixel_unshuffle
from shardwise.nn.functions.spatial import Sizes
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = [
    "ChannelShuffle", "PixelShuffle", "PixelUnshuffle", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip


class Upsample(Module):
    """Sample at another number of places; see `functional.interpolate`.

    Parameters
    ----------
    size : int or sequence of int, optional
    scale_factor : float or sequence of float, optional
    mode : str
    align_corners, recompute_scale_factor : bool, optional
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: Factors | None = None,
        mode: InterpolationMode = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor: Factors | None = scale_factor
        if isinstance(scale_factor, Sequence):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        elif scale_factor is not None:
            self.scale_factor = float(scale_factor)
        self.mode: InterpolationMode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Sample (batch, channels, places, ...)."""
        return interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """Show size or factor, and the mode."""
        what = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Sample the nearest places of (batch, channels, height, width).

    Parameters
    ----------
    size : int or sequence of int, optional
    scale_factor : float or sequence of float, optional
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Factors | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Sample between the places of (batch, channels, height, width), whose corners stay.

    Parameters
    ----------
    size : int or sequence of int, optional
    scale_factor : float or sequence of float, optional
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Factors | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class PixelShuffle(Module):
    """Turn channels into places; see `functional.pixel_shuffle`.

    Parameters
    ----------
    upscale_factor : int
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., channels * r * r, height, width) to (..., channels, height * r, width * r)."""
        return pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Show the factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Turn places into channels; see `functional.pixel_unshuffle`.

    Parameters
    ----------
    downscale_factor : int
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., channels, height * r, width * r) to (..., channels * r * r, height, width)."""
        return pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Show the factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Take one channel of each group in turn; see `functional.channel_shuffle`.

    Parameters
    ----------
    groups : int
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Reorder the channels of (batch, channels, places, ...)."""
        return channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Show the number of groups."""
        return f"groups={self.groups}"
