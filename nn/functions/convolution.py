"""Convolutions, and transposed ones, in one to three dims."""

from __future__ import annotations

from typing import Literal

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.nn.functions.spatial import Sizes, batched, per_dim
from shardwise.tensor import Tensor
from shardwise.tensor.ops import convolution

__all__ = [
    "Padding", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "same_padding",
]  # fmt: skip

Padding = Sizes | Literal["same", "valid"]
"""Zeros on both sides of each spatial dim, or by name."""


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the correlation of `input` with `weight` over one dim, plus `bias`; see `conv2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or (channels, length)
    weight : Tensor, shape (out, channels / groups, kernel)
    bias : Tensor, shape (out,), optional
    stride, padding, dilation, groups
        As for `conv2d`.
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the correlation of `input` with `weight` over two dims, plus `bias`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
    weight : Tensor, shape (out, channels / groups, *kernel)
    bias : Tensor, shape (out,), optional
    stride : int or tuple of int
        Places from one output to the next, in the input.
    padding : int, tuple of int, "same" or "valid"
        Zeros on both sides. "same" gives the output the size of the input, for a stride of 1; if an odd
        number is needed, one more behind than in front. "valid" is 0.
    dilation : int or tuple of int
        Places from one element of the kernel to the next, in the input.
    groups : int
        Output channels see their own group of input channels only.

    Returns
    -------
    Tensor, shape (batch, out, *size), without batch if `input` has none
        ``(n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1`` in each dim.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes, dtypes or options that do not fit together.

    Notes
    -----
    Computed as matrix products over blocks of windows, whose memory is bounded.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise.nn import functional as F
    >>> image = sw.arange(9.0).reshape(1, 3, 3)
    >>> F.conv2d(image, sw.ones(1, 1, 2, 2)).tolist()
    [[[8.0, 12.0], [20.0, 24.0]]]
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the correlation of `input` with `weight` over three dims, plus `bias`; see `conv2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or (channels, depth, height, width)
    weight : Tensor, shape (out, channels / groups, *kernel)
    bias : Tensor, shape (out,), optional
    stride, padding, dilation, groups
        As for `conv2d`.
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _convolve(
    op: str,
    ndim: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    x, alone = _checked(op, ndim, input, weight, bias, groups, transposed=False)
    strides, dilations = per_dim(op, "stride", stride, ndim), per_dim(op, "dilation", dilation, ndim)
    kernel = weight.shape[2:]
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ArgumentError(f"{op}: padding must be integers, 'same' or 'valid', got {padding!r}")
        if padding == "same" and max(strides) > 1:
            raise ArgumentError(
                f"{op}: padding='same' needs a stride of 1, got {stride}; give the padding in numbers"
            )
        fronts = same_padding(kernel, dilations) if padding == "same" else (0,) * ndim
    else:
        fronts = per_dim(op, "padding", padding, ndim, 0)
    size = x.shape[2:]
    if padding != "same":
        size = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(x.shape[2:], kernel, strides, fronts, dilations, strict=True)
        )
    if min(size) < 1:
        reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
        raise ShapeError(
            f"{op}: the kernel reaches over {reach}, more than the input of {x.shape[2:]} with padding "
            f"{padding!r} has; give more padding, or a smaller kernel or dilation"
        )
    out = convolution.Convolution.apply(
        x, weight, bias, size=size, stride=strides, padding=fronts, dilation=dilations, groups=groups
    )
    return out.squeeze(0) if alone else out


def same_padding(kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    """Return the zeros in front of each dim under "same"; behind there may be one more."""
    return tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True))


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transposed convolution over one dim; see `conv_transpose2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or (channels, length)
    weight : Tensor, shape (channels, out / groups, kernel)
    bias : Tensor, shape (out,), optional
    stride, padding, output_padding, groups, dilation
        As for `conv_transpose2d`.
    """
    return _transpose(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transposed convolution over two dims: the gradient of `conv2d` with respect to its input.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
    weight : Tensor, shape (channels, out / groups, *kernel)
    bias : Tensor, shape (out,), optional
    stride, padding, dilation, groups
        Of the convolution.
    output_padding : int or tuple of int
        Added to the size at the end of each dim, which a strided convolution leaves open; less than
        stride or dilation.

    Returns
    -------
    Tensor, shape (batch, out, *size), without batch if `input` has none
        ``(n - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1`` in each dim.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes, dtypes or options that do not fit together.
    """
    return _transpose(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transposed convolution over three dims; see `conv_transpose2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or (channels, depth, height, width)
    weight : Tensor, shape (channels, out / groups, *kernel)
    bias : Tensor, shape (out,), optional
    stride, padding, output_padding, groups, dilation
        As for `conv_transpose2d`.
    """
    return _transpose(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def _transpose(
    op: str,
    ndim: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> Tensor:
    x, alone = _checked(op, ndim, input, weight, bias, groups, transposed=True)
    strides, dilations = per_dim(op, "stride", stride, ndim), per_dim(op, "dilation", dilation, ndim)
    fronts = per_dim(op, "padding", padding, ndim, 0)
    extra = per_dim(op, "output_padding", output_padding, ndim, 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise ArgumentError(
            f"{op}: output_padding must be less than stride or dilation, got {output_padding} with stride "
            f"{stride} and dilation {dilation}"
        )
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, k, s, p, d, e in zip(
            x.shape[2:], weight.shape[2:], strides, fronts, dilations, extra, strict=True
        )
    )
    if min(size) < 1 or min(x.shape[2:]) < 1:
        raise ShapeError(
            f"{op}: an input of {x.shape[2:]} with a kernel of {weight.shape[2:]} and padding {padding} "
            f"leaves a result of {size}; give less padding"
        )
    out = convolution.ConvolutionTransposed.apply(
        x, weight, bias, size=size, stride=strides, padding=fronts, dilation=dilations, groups=groups
    )
    return out.squeeze(0) if alone else out


def _checked(
    op: str,
    ndim: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: int,
    transposed: bool,
) -> tuple[Tensor, bool]:
    """Return the input with a batch dim, and whether it had none, if all fits together."""
    check_tensors(op, input=input, weight=weight, bias=bias)
    x, alone = batched(op, input, ndim)
    if not isinstance(groups, int) or groups < 1:
        raise ArgumentError(f"{op}: groups must be an integer of at least 1, got {groups!r}")
    form = "(channels, out / groups, *kernel)" if transposed else "(out, channels / groups, *kernel)"
    if weight.ndim != ndim + 2 or 0 in weight.shape[2:]:
        raise ShapeError(f"{op}: weight must have shape {form} with {ndim} kernel dims, got {weight.shape}")
    first, second = weight.shape[:2]
    channels, out = (first, second * groups) if transposed else (second * groups, first)
    if x.shape[1] != channels or first % groups:
        raise ShapeError(
            f"{op}: weight of shape {weight.shape}, which is {form}, with groups={groups} does not fit an "
            f"input of {x.shape[1]} channels, shape {input.shape}"
        )
    if bias is not None and bias.shape != (out,):
        raise ShapeError(f"{op}: bias must have shape ({out},), got {bias.shape}")
    check_dtypes(op, input=input, weight=weight, bias=bias)
    return x, alone
