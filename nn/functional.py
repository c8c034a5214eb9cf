"""Layers as functions, with PyTorch's names and conventions."""

from __future__ import annotations

from shardwise.nn.functions.activation import (
    gelu,
    hardshrink,
    hardsigmoid,
    hardswish,
    logsigmoid,
    mish,
    sigmoid,
    silu,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
)
from shardwise.nn.functions.attention import scaled_dot_product_attention
from shardwise.nn.functions.dropout import dropout
from shardwise.nn.functions.embedding import BagMode, embedding, embedding_bag
from shardwise.nn.functions.gate import glu, swiglu
from shardwise.nn.functions.linear import bilinear, linear
from shardwise.nn.functions.loss import Reduction, cross_entropy, mse_loss
from shardwise.nn.functions.norm import layer_norm
from shardwise.nn.functions.rectifier import (
    celu,
    elu,
    hardtanh,
    leaky_relu,
    prelu,
    relu,
    relu6,
    rrelu,
    selu,
    threshold,
)
from shardwise.nn.functions.softmax import gumbel_softmax, log_softmax, softmax, softmin

__all__ = [
    "BagMode",
    "Reduction",
    "bilinear",
    "celu",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "embedding_bag",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "prelu",
    "relu",
    "relu6",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "swiglu",
    "tanh",
    "tanhshrink",
    "threshold",
]  # fmt: skip
