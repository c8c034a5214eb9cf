"""Layers as functions, with PyTorch's names and conventions."""

from __future__ import annotations

from shardwise.nn.functions.activation import gelu, log_softmax, relu, softmax
from shardwise.nn.functions.attention import scaled_dot_product_attention
from shardwise.nn.functions.dropout import dropout
from shardwise.nn.functions.linear import embedding, linear
from shardwise.nn.functions.loss import Reduction, cross_entropy, mse_loss
from shardwise.nn.functions.norm import layer_norm

__all__ = [
    "Reduction", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "linear", "log_softmax",
    "mse_loss", "relu", "scaled_dot_product_attention", "softmax",
]  # fmt: skip
