"""Layers that take maxima over windows, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from shardwise.nn.functions import max_pooling, max_unpooling
from shardwise.nn.functions.spatial import Sizes, per_dim
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]


class _MaxPool(Module):
    """Options of a maximum over windows."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Show the options."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of (batch, channels, length); see `MaxPool2d`."""

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Pool (batch, channels, length), the batch being optional."""
        return max_pooling.max_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class MaxPool2d(_MaxPool):
    """The largest element of each window; see `functional.max_pool2d`.

    Parameters
    ----------
    kernel_size : int or tuple of int
    stride : int or tuple of int, optional
        `kernel_size` if not given.
    padding, dilation : int or tuple of int
    return_indices : bool
        Return the elements' places as well, for `MaxUnpool2d`.
    ceil_mode : bool
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Pool (batch, channels, height, width), the batch being optional."""
        return max_pooling.max_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class MaxPool3d(_MaxPool):
    """The largest element of each window of (batch, channels, depth, height, width); see `MaxPool2d`."""

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Pool (batch, channels, depth, height, width), the batch being optional."""
        return max_pooling.max_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class _MaxUnpool(Module):
    """Options of the maximum that is undone."""

    ndim: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        op = type(self).__name__
        self.kernel_size = per_dim(op, "kernel_size", kernel_size, self.ndim)
        self.stride = self.kernel_size if stride is None else per_dim(op, "stride", stride, self.ndim)
        self.padding = per_dim(op, "padding", padding, self.ndim, 0)

    def extra_repr(self) -> str:
        """Show the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Zeros, with maxima where `MaxPool1d` found them; see `MaxUnpool2d`."""

    ndim = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Spread (batch, channels, length), the batch being optional."""
        return max_unpooling.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpool):
    """Zeros, with maxima where `MaxPool2d` found them; see `functional.max_unpool2d`.

    Parameters
    ----------
    kernel_size : int or tuple of int
    stride : int or tuple of int, optional
        `kernel_size` if not given.
    padding : int or tuple of int
    """

    ndim = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Spread (batch, channels, height, width), the batch being optional."""
        return max_unpooling.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpool):
    """Zeros, with maxima where `MaxPool3d` found them; see `MaxUnpool2d`."""

    ndim = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Spread (batch, channels, depth, height, width), the batch being optional."""
        return max_unpooling.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
