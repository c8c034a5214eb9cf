"""Transposed convolutional layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.functions import convolution
from shardwise.nn.functions.spatial import Sizes, per_dim
from shardwise.nn.layers.kernel import check_channels, kernel_repr, new_weights, reset_weights
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Transposed(Module):
    """A transposed convolution over `ndim` dims."""

    ndim: ClassVar[int]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: Literal["zeros"] = "zeros",
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        op, ndim = type(self).__name__, self.ndim
        check_channels(op, in_channels, out_channels, groups)
        if padding_mode != "zeros":
            raise ArgumentError(f"{op}: padding_mode can only be 'zeros', got {padding_mode!r}")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = per_dim(op, "kernel_size", kernel_size, ndim)
        self.stride = per_dim(op, "stride", stride, ndim)
        self.padding = per_dim(op, "padding", padding, ndim, 0)
        self.output_padding = per_dim(op, "output_padding", output_padding, ndim, 0)
        self.dilation = per_dim(op, "dilation", dilation, ndim)
        self.padding_mode = padding_mode
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.weight, offset = new_weights(shape, out_channels if bias else None, device, dtype)
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, uniform in ±1/sqrt(fan in), counted over the weight's dims but the first."""
        reset_weights(self.weight, self.bias)

    def _extra(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """Return the output_padding that gives the size that was asked for."""
        if output_size is None:
            return self.output_padding
        given = tuple(output_size)
        wanted = given[-self.ndim :] if len(given) in (self.ndim, input.ndim) else ()
        least = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.ndim :],
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
                strict=True,
            )
        )
        most = tuple(n + s - 1 for n, s in zip(least, self.stride, strict=True))
        if not wanted or any(not a <= n <= b for n, a, b in zip(wanted, least, most, strict=True)):
            raise ShapeError(
                f"{type(self).__name__}: output_size must lie between {least} and {most} for an input of "
                f"shape {input.shape}, got {given}"
            )
        return tuple(n - a for n, a in zip(wanted, least, strict=True))

    def extra_repr(self) -> str:
        """Show sizes, and what differs from the defaults."""
        zeros, ones = (0,) * self.ndim, (1,) * self.ndim
        return kernel_repr(
            (self.in_channels, self.out_channels),
            self.kernel_size,
            self.stride,
            self.groups,
            self.bias is not None,
            padding=(self.padding, zeros),
            dilation=(self.dilation, ones),
            output_padding=(self.output_padding, zeros),
        )


class ConvTranspose1d(_Transposed):
    """Transposed convolution over one dim; see `ConvTranspose2d`.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        As for `ConvTranspose2d`.
    padding_mode : "zeros"
    device, dtype : optional
    """

    ndim = 1

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Map (batch, in, length) to (batch, out, new length), the batch being optional."""
        extra = self._extra(input, output_size)
        return convolution.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose2d(_Transposed):
    """Transposed convolution over two dims, as `functional.conv_transpose2d`.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, output_padding : int or tuple of int
    groups : int
    bias : bool
    dilation : int or tuple of int
    padding_mode : "zeros"
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter, shape (in, out / groups, *kernel_size)
    bias : Parameter, shape (out,), or None
    """

    ndim = 2

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Map (batch, in, height, width) to (batch, out, ...), of `output_size` if that is given."""
        extra = self._extra(input, output_size)
        return convolution.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose3d(_Transposed):
    """Transposed convolution over three dims; see `ConvTranspose2d`.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        As for `ConvTranspose2d`.
    padding_mode : "zeros"
    device, dtype : optional
    """

    ndim = 3

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Map (batch, in, depth, height, width) to (batch, out, ...), of `output_size` if that is given."""
        extra = self._extra(input, output_size)
        return convolution.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )
