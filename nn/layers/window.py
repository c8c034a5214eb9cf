"""Sliding windows as layers."""

from __future__ import annotations

from shardwise.nn.functions import window
from shardwise.nn.functions.spatial import Sizes
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """The sliding windows of an image as columns; see `functional.unfold`.

    Parameters
    ----------
    kernel_size, dilation, padding, stride : int or tuple of int
    """

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, channels * elements of a window, windows)."""
        return window.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Show the windows."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """An image of columns, added up where windows overlap; see `functional.fold`.

    Parameters
    ----------
    output_size, kernel_size, dilation, padding, stride : int or tuple of int
    """

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Map (batch, channels * elements of a window, windows) to (batch, channels, *output_size)."""
        return window.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """Show the windows."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
