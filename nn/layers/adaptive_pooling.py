"""Layers that pool to an output of a given size."""

from __future__ import annotations

from shardwise.nn.functions import adaptive_pooling
from shardwise.nn.functions.adaptive_pooling import OutputSizes
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
]  # fmt: skip


class _AdaptiveAvgPool(Module):
    """The size of the output."""

    def __init__(self, output_size: OutputSizes) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """Show the size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of windows that divide the input; see `functional.adaptive_avg_pool2d`.

    Parameters
    ----------
    output_size : int, None or tuple of these
    """

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, length), the batch being optional."""
        return adaptive_pooling.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of windows that divide the input; see `functional.adaptive_avg_pool2d`.

    Parameters
    ----------
    output_size : int, None or tuple of these
    """

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, height, width), the batch being optional."""
        return adaptive_pooling.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of windows that divide the input; see `functional.adaptive_avg_pool2d`.

    Parameters
    ----------
    output_size : int, None or tuple of these
    """

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, depth, height, width), the batch being optional."""
        return adaptive_pooling.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPool(Module):
    """The size of the output, and whether to return places."""

    def __init__(self, output_size: OutputSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """Show the size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of windows that divide the input; see `functional.adaptive_max_pool2d`.

    Parameters
    ----------
    output_size : int, None or tuple of these
    return_indices : bool
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Pool (batch, channels, length), the batch being optional."""
        return adaptive_pooling.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of windows that divide the input; see `functional.adaptive_max_pool2d`.

    Parameters
    ----------
    output_size : int, None or tuple of these
    return_indices : bool
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Pool (batch, channels, height, width), the batch being optional."""
        return adaptive_pooling.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of windows that divide the input; see `functional.adaptive_max_pool2d`.

    Parameters
    ----------
    output_size : int, None or tuple of these
    return_indices : bool
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Pool (batch, channels, depth, height, width), the batch being optional."""
        return adaptive_pooling.adaptive_max_pool3d(input, self.output_size, self.return_indices)
