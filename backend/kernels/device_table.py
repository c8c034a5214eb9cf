"""Every source of CUDA kernels, in one tuple: for checks on the user's machine, and for the tests."""

from __future__ import annotations

from shardwise.backend.kernels.activation import activation_cuda, gate_cuda
from shardwise.backend.kernels.attention import attention_cuda
from shardwise.backend.kernels.channel import planes_cuda
from shardwise.backend.kernels.place import scatter_cuda
from shardwise.backend.kernels.random import dropout_cuda, random_cuda
from shardwise.backend.kernels.recurrent import recurrent_cuda
from shardwise.backend.kernels.reduction import reduction_cuda, scan_cuda
from shardwise.backend.kernels.row import loss_cuda, norm_cuda, softmax_cuda, weighted_loss_cuda
from shardwise.backend.kernels.window import convolution_cuda, pooling_cuda

__all__ = ["DEVICE_SOURCES", "LAUNCHERS"]

LAUNCHERS = tuple(
    module.launch
    for module in (
        activation_cuda,
        attention_cuda,
        convolution_cuda,
        dropout_cuda,
        gate_cuda,
        loss_cuda,
        norm_cuda,
        planes_cuda,
        pooling_cuda,
        random_cuda,
        recurrent_cuda,
        reduction_cuda,
        scan_cuda,
        scatter_cuda,
        softmax_cuda,
        weighted_loss_cuda,
    )
)
"""What launches them."""

DEVICE_SOURCES = tuple(launcher.source for launcher in LAUNCHERS)
"""Each compiles for every dtype in its ``dtypes``."""
