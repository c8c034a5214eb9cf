"""Layers that take means, and means of powers, over windows."""

from __future__ import annotations

from shardwise.nn.functions import average_pooling
from shardwise.nn.functions.spatial import Sizes
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d"]


class _AvgPool(Module):
    """Options of a mean over windows."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def extra_repr(self) -> str:
        """Show the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window of (batch, channels, length); see `AvgPool2d`."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, length), the batch being optional."""
        return average_pooling.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class AvgPool2d(_AvgPool):
    """The mean of each window; see `functional.avg_pool2d`.

    Parameters
    ----------
    kernel_size : int or tuple of int
    stride : int or tuple of int, optional
        `kernel_size` if not given.
    padding : int or tuple of int
    ceil_mode, count_include_pad : bool
    divisor_override : int, optional
    """

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, height, width), the batch being optional."""
        return average_pooling.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(_AvgPool):
    """The mean of each window of (batch, channels, depth, height, width); see `AvgPool2d`."""

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, depth, height, width), the batch being optional."""
        return average_pooling.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class _LPPool(Module):
    """Options of a power mean over windows."""

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Show the options."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The norm of each window of (batch, channels, length); see `LPPool2d`."""

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, length), the batch being optional."""
        return average_pooling.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """The norm of order `norm_type` of each window; see `functional.lp_pool2d`.

    Parameters
    ----------
    norm_type : float
    kernel_size : int or tuple of int
    stride : int or tuple of int, optional
        `kernel_size` if not given.
    ceil_mode : bool
    """

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, height, width), the batch being optional."""
        return average_pooling.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPool):
    """The norm of each window of (batch, channels, depth, height, width); see `LPPool2d`."""

    def forward(self, input: Tensor) -> Tensor:
        """Pool (batch, channels, depth, height, width), the batch being optional."""
        return average_pooling.lp_pool3d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)
