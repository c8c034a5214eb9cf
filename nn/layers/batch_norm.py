"""Normalisation over the batch, with running statistics, and over groups of channels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.shape import ShapeArray
from shardwise.nn import init
from shardwise.nn.check import check_sizes, check_tensors
from shardwise.nn.functions.batch_norm import batch_norm, group_norm, instance_norm
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, no_grad, ones, zeros

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d",
]  # fmt: skip


class _ChannelNorm(Module):
    """Scale, shift and running statistics per channel."""

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def _prepare(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: str | None,
        dtype: DTypeLike | None,
        bias: bool,
    ) -> None:
        check_sizes(type(self).__name__, num_features=num_features)
        kind = np.float32 if dtype is None else dtype
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.register_parameter(
            "weight", Parameter(ones(num_features, dtype=kind, device=device)) if affine else None
        )
        self.register_parameter(
            "bias", Parameter(zeros(num_features, dtype=kind, device=device)) if affine and bias else None
        )
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", zeros(num_features, dtype=kind, device=device) if tracked else None
        )
        self.register_buffer(
            "running_var", ones(num_features, dtype=kind, device=device) if tracked else None
        )
        self.register_buffer(
            "num_batches_tracked", zeros((), dtype=np.int64, device=device) if tracked else None
        )

    def reset_running_stats(self) -> None:
        """Forget the batches seen: mean 0, variance 1."""
        if self.running_mean is not None and self.running_var is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
        if self.num_batches_tracked is not None:
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Forget the batches seen, scale by 1 and shift by 0 again."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def extra_repr(self) -> str:
        """Show the options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_ChannelNorm):
    """Batch normalisation of inputs with the given numbers of dims."""

    dims: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._prepare(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (batch, channels, ...) by the batch's statistics, or by the running ones after eval()."""
        check_tensors(type(self).__name__, input=input)
        if input.ndim not in self.dims:
            wanted = " or ".join(map(str, self.dims))
            raise ShapeError(f"{type(self).__name__}: wanted an input of {wanted} dims, got {input.shape}")
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.add_(1)
            if self.momentum is None and not isinstance(self.num_batches_tracked.data, ShapeArray):
                share = 1.0 / float(self.num_batches_tracked)  # the plain average over all batches
        known = self.running_mean is not None and self.running_var is not None
        tracked = known and (not self.training or self.track_running_stats)
        return batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            self.training or not known,
            share,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (batch, channels) or (batch, channels, length); see `BatchNorm2d`."""

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (batch, channels, height, width) (Ioffe, Szegedy 2015).

    Parameters
    ----------
    num_features : int
        Channels.
    eps : float
        Added to the variance.
    momentum : float or None
        Share of a batch's statistics in the running ones; None for the average over all batches.
    affine : bool
        Learn a scale and a shift.
    track_running_stats : bool
        Keep running statistics, for `eval`. Without them the batch's are used there too.
    device, dtype : optional
    bias : bool
        Learn the shift as well.

    Attributes
    ----------
    weight, bias : Parameter, shape (num_features,), or None
    running_mean, running_var : Tensor, shape (num_features,), or None
        Buffers, written in training.
    num_batches_tracked : Tensor, shape (), int64, or None

    Notes
    -----
    Under data parallelism each rank normalises by its own rows of the batch.
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (batch, channels, depth, height, width); see `BatchNorm2d`."""

    dims = (5,)


class _InstanceNorm(_ChannelNorm):
    """Instance normalisation of inputs with the given number of dims, batch included."""

    ndim: ClassVar[int]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._prepare(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (batch, channels, places, ...), the batch being optional."""
        op = type(self).__name__
        check_tensors(op, input=input)
        if input.ndim not in (self.ndim - 1, self.ndim):
            raise ShapeError(
                f"{op}: wanted an input of {self.ndim - 1} or {self.ndim} dims, got {input.shape}"
            )
        x = input.unsqueeze(0) if input.ndim < self.ndim else input
        out = instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if input.ndim < self.ndim else out


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (batch, channels, length); see `InstanceNorm2d`."""

    ndim = 3


class InstanceNorm2d(_InstanceNorm):
    """Normalise each channel of each sample (Ulyanov, Vedaldi, Lempitsky 2016).

    Parameters
    ----------
    num_features : int
        Channels.
    eps, momentum : float
    affine : bool
        Learn a scale and a shift.
    track_running_stats : bool
        Keep the samples' mean statistics, and use them after `eval`.
    device, dtype : optional
    bias : bool
        Learn the shift as well, if `affine`.
    """

    ndim = 4


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (batch, channels, depth, height, width); see `InstanceNorm2d`."""

    ndim = 5


class GroupNorm(Module):
    """Normalise each sample over groups of channels (Wu, He 2018).

    Parameters
    ----------
    num_groups, num_channels : int
    eps : float
    affine : bool
        Learn a scale and a shift per channel.
    device, dtype : optional
    bias : bool
        Learn the shift as well.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_sizes("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm: num_groups must divide num_channels, got {num_groups} and {num_channels}"
            )
        kind = np.float32 if dtype is None else dtype
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self.register_parameter(
            "weight", Parameter(ones(num_channels, dtype=kind, device=device)) if affine else None
        )
        self.register_parameter(
            "bias", Parameter(zeros(num_channels, dtype=kind, device=device)) if affine and bias else None
        )

    def reset_parameters(self) -> None:
        """Scale by 1 and shift by 0 again."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Show the options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
