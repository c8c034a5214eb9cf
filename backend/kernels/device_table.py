"""Every source of CUDA kernels, in one tuple: for checks on the user's machine, and for the tests."""

from __future__ import annotations

from shardwise.backend.kernels import (
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
