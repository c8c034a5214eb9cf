"""Normalisation over the batch, over groups of channels, and of each channel of each sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_reals
from shardwise.tensor import Tensor, no_grad
from shardwise.tensor.ops import norm

__all__ = ["batch_norm", "group_norm", "instance_norm"]


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...)
    running_mean, running_var : Tensor, shape (channels,), or None
        Statistics of earlier batches: used outside training, and moved towards the batch's, in place,
        while training.
    weight, bias : Tensor, shape (channels,), optional
    training : bool
        Normalise by mean and variance of the batch, over all dims but the channels'.
    momentum : float
        What share of the batch's statistics goes into the running ones. The variance that goes there is
        divided by one less than the number of elements; the one that is normalised by is not.
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor, shape of `input`

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes or dtypes that do not fit, statistics that are missing, or training on one element per
        channel.

    Notes
    -----
    Nothing is sent: under data parallelism each rank normalises by the statistics of its own rows.
    """
    _check_channels("batch_norm", input, weight, bias, running_mean, running_var)
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("batch_norm: give both running_mean and running_var, or neither")
    running = None if running_mean is None or running_var is None else (running_mean, running_var)
    if not training:
        if running is None:
            raise ArgumentError("batch_norm: outside training it needs running_mean and running_var")
        return _by_statistics(input, *running, weight, bias, eps)
    if not input.numel():
        return _affine(input, weight, bias)
    count = input.numel() // input.shape[1]
    if count < 2:
        raise ShapeError(
            f"batch_norm: training needs more than one value per channel, got an input of shape "
            f"{input.shape}; use a larger batch, or eval()"
        )
    wholes = _wholes(running)
    out = norm.BatchNorm.apply(
        input, weight, bias, eps=eps, running=_arrays(wholes), momentum=float(momentum)
    )
    _written(running, wholes)
    return out


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, places, ...)
    running_mean, running_var : Tensor, shape (channels,), or None
        As for `batch_norm`; the samples' statistics are averaged.
    weight, bias : Tensor, shape (channels,), optional
    use_input_stats : bool
        Normalise by the statistics of `input`, not by the running ones.
    momentum, eps : float
        As for `batch_norm`.

    Returns
    -------
    Tensor, shape of `input`
    """
    _check_channels("instance_norm", input, weight, bias, running_mean, running_var)
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("instance_norm: give both running_mean and running_var, or neither")
    running = None if running_mean is None or running_var is None else (running_mean, running_var)
    if not use_input_stats:
        if running is None:
            raise ArgumentError(
                "instance_norm: without use_input_stats it needs running_mean and running_var"
            )
        return _by_statistics(input, *running, weight, bias, eps)
    if not input.numel():
        return _affine(input, weight, bias)
    if math.prod(input.shape[2:]) < 2:
        raise ShapeError(
            f"instance_norm: needs more than one place per channel, got an input of shape {input.shape}"
        )
    wholes = _wholes(running)
    out = norm.GroupNorm.apply(
        input,
        weight,
        bias,
        groups=input.shape[1],
        eps=eps,
        running=_arrays(wholes),
        momentum=float(momentum),
    )
    _written(running, wholes)
    return out


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each group of channels of each sample to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...)
    num_groups : int
        Divides the number of channels.
    weight, bias : Tensor, shape (channels,), optional
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor, shape of `input`
    """
    _check_channels("group_norm", input, weight, bias)
    channels = input.shape[1]
    if not isinstance(num_groups, int) or num_groups < 1 or channels % num_groups:
        raise ArgumentError(f"group_norm: num_groups must divide {channels} channels, got {num_groups!r}")
    if not input.numel():
        return _affine(input, weight, bias)
    if input.numel() // num_groups < 2:
        raise ShapeError(
            f"group_norm: needs more than one value per group, got an input of shape {input.shape} and "
            f"{num_groups} groups"
        )
    return norm.GroupNorm.apply(input, weight, bias, groups=num_groups, eps=eps)


def _check_channels(
    op: str,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
) -> None:
    check_reals(op, input=input, weight=weight, bias=bias)
    if input.ndim < 2:
        raise ShapeError(f"{op}: input must have shape (batch, channels, ...), got {input.shape}")
    given = {"weight": weight, "bias": bias, "running_mean": running_mean, "running_var": running_var}
    for name, tensor in given.items():
        if tensor is not None and tensor.shape != input.shape[1:2]:
            raise ShapeError(
                f"{op}: {name} must have one element per channel, shape {input.shape[1:2]}, got "
                f"{tensor.shape}"
            )


def _by_statistics(
    input: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Normalise by statistics that are known. Those of narrow floats are computed in float32."""
    narrow = input.dtype.itemsize == 2
    kind = np.float32 if narrow else input.dtype
    factor = 1.0 / (variance.detach().astype(kind) + eps).sqrt()
    if weight is not None:
        factor = factor * weight.astype(kind)
    shift = -mean.detach().astype(kind) * factor
    if bias is not None:
        shift = shift + bias.astype(kind)
    out = input.astype(kind) * _column(factor, input.ndim) + _column(shift, input.ndim)
    return out.astype(input.dtype) if narrow else out


def _affine(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Scale and shift what has no elements, so that gradients are zeros."""
    out = input * 1.0 if weight is None else input * _column(weight, input.ndim)
    return out if bias is None else out + _column(bias, input.ndim)


def _column(values: Tensor, ndim: int) -> Tensor:
    """Return one number per channel in a shape that broadcasts over an input of `ndim` dims."""
    return values.reshape(values.shape[0], *(1,) * (ndim - 2))


def _wholes(running: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor] | None:
    """Return running statistics that may be written: of sharded ones replicas, which `_written` cuts."""
    if running is None or all(_is_whole(tensor) for tensor in running):
        return running
    first, second = (_replica(tensor) for tensor in running)
    return first, second


def _is_whole(tensor: Tensor) -> bool:
    layout = getattr(tensor.data, "layout", None)
    if layout is not None and layout.partial:
        raise ArgumentError(
            f"running statistics are values, and terms of a sum are none; got {layout!r}. Call "
            "redistribute() on them first"
        )
    return layout is None or layout.is_replicated


def _replica(tensor: Any) -> Any:
    return tensor if _is_whole(tensor) else tensor.detach().redistribute()


def _arrays(running: tuple[Tensor, Tensor] | None) -> norm.Running:
    return None if running is None else (running[0].data, running[1].data)


def _written(running: tuple[Tensor, Tensor] | None, wholes: tuple[Tensor, Tensor] | None) -> None:
    """Give running statistics what was written to their wholes; note it, for whoever saved them."""
    for tensor, whole in zip(running or (), wholes or (), strict=True):
        if tensor is whole:
            tensor.version.count += 1
        else:
            with no_grad():
                tensor.copy_(whole)
