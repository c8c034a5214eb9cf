"""Convolutional layers."""

from __future__ import annotations

from typing import ClassVar, Literal

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.nn.functions import convolution
from shardwise.nn.functions.convolution import same_padding
from shardwise.nn.functions.padding import pad
from shardwise.nn.functions.spatial import Sizes, per_dim
from shardwise.nn.layers.kernel import check_channels, kernel_repr, new_weights, reset_weights
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "PaddingMode"]

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """A convolution over `ndim` dims."""

    ndim: ClassVar[int]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | Literal["same", "valid"] = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        op, ndim = type(self).__name__, self.ndim
        check_channels(op, in_channels, out_channels, groups)
        if padding_mode not in _MODES:
            raise ArgumentError(
                f"{op}: padding_mode must be one of {', '.join(_MODES)}; got {padding_mode!r}"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = per_dim(op, "kernel_size", kernel_size, ndim)
        self.stride = per_dim(op, "stride", stride, ndim)
        self.dilation = per_dim(op, "dilation", dilation, ndim)
        self.padding: tuple[int, ...] | Literal["same", "valid"]
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ArgumentError(f"{op}: padding must be integers, 'same' or 'valid', got {padding!r}")
            if padding == "same" and max(self.stride) > 1:
                raise ArgumentError(f"{op}: padding='same' needs a stride of 1, got {stride}")
            self.padding = padding
        else:
            self.padding = per_dim(op, "padding", padding, ndim, 0)
        self.padding_mode: PaddingMode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight, offset = new_weights(shape, out_channels if bias else None, device, dtype)
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, uniform in ±1/sqrt(fan in)."""
        reset_weights(self.weight, self.bias)

    def _padded(self, input: Tensor) -> tuple[Tensor, tuple[int, ...] | Literal["same", "valid"]]:
        """Return the input and what is left to pad with zeros."""
        if self.padding_mode == "zeros" or self.padding == "valid":
            return input, self.padding
        if self.padding == "same":
            fronts = same_padding(self.kernel_size, self.dilation)
            total = [d * (k - 1) for k, d in zip(self.kernel_size, self.dilation, strict=True)]
            backs = tuple(n - front for n, front in zip(total, fronts, strict=True))
        else:
            fronts = backs = per_dim("", "padding", self.padding, self.ndim, 0)
        widths = [n for pair in zip(reversed(fronts), reversed(backs), strict=True) for n in pair]
        mode: Literal["reflect", "replicate", "circular"] = self.padding_mode
        return pad(input, widths, mode=mode), (0,) * self.ndim

    def extra_repr(self) -> str:
        """Show sizes, and what differs from the defaults."""
        zeros, ones = (0,) * self.ndim, (1,) * self.ndim
        return kernel_repr(
            (self.in_channels, self.out_channels),
            self.kernel_size,
            self.stride,
            self.groups,
            self.bias is not None,
            self.padding_mode,
            padding=(self.padding, zeros),
            dilation=(self.dilation, ones),
        )


class Conv1d(_Convolution):
    """Convolution over one dim; see `Conv2d`.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        As for `Conv2d`.
    device, dtype : optional
    """

    ndim = 1

    def forward(self, input: Tensor) -> Tensor:
        """Map (batch, in, length) to (batch, out, new length), the batch being optional."""
        x, padding = self._padded(input)
        return convolution.conv1d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_Convolution):
    """Convolution over two dims, as `functional.conv2d`.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride : int or tuple of int
    padding : int, tuple of int, "same" or "valid"
    dilation : int or tuple of int
    groups : int
        Output channels see their own group of input channels only.
    bias : bool
    padding_mode : "zeros", "reflect", "replicate" or "circular"
        What stands in the padding.
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter, shape (out, in / groups, *kernel_size)
        Uniform in ±1/sqrt(in / groups * kernel elements) at first; so is the bias.
    bias : Parameter, shape (out,), or None
    """

    ndim = 2

    def forward(self, input: Tensor) -> Tensor:
        """Map (batch, in, height, width) to (batch, out, new height, new width), the batch being optional."""
        x, padding = self._padded(input)
        return convolution.conv2d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_Convolution):
    """Convolution over three dims; see `Conv2d`.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        As for `Conv2d`.
    device, dtype : optional
    """

    ndim = 3

    def forward(self, input: Tensor) -> Tensor:
        """Map (batch, in, depth, height, width) to (batch, out, ...), the batch being optional."""
        x, padding = self._padded(input)
        return convolution.conv3d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
