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
from shardwise.nn.functions.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from shardwise.nn.functions.attention import scaled_dot_product_attention
from shardwise.nn.functions.average_pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
)
from shardwise.nn.functions.batch_norm import batch_norm, group_norm, instance_norm
from shardwise.nn.functions.classification import (
    cross_entropy,
    nll_loss,
)
from shardwise.nn.functions.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from shardwise.nn.functions.ctc import (
    ctc_loss,
)
from shardwise.nn.functions.distance import (
    cosine_similarity,
    normalize,
    pairwise_distance,
)
from shardwise.nn.functions.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from shardwise.nn.functions.embedding import BagMode, embedding, embedding_bag
from shardwise.nn.functions.encoding import one_hot
from shardwise.nn.functions.gate import glu, swiglu
from shardwise.nn.functions.grid import affine_grid, grid_sample
from shardwise.nn.functions.in_place_rectifier import (
    celu_,
    elu_,
    hardtanh_,
    leaky_relu_,
    relu_,
    rrelu_,
    selu_,
    threshold_,
)
from shardwise.nn.functions.interpolation import interpolate, upsample
from shardwise.nn.functions.likelihood import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    kl_div,
    poisson_nll_loss,
)
from shardwise.nn.functions.linear import bilinear, linear
from shardwise.nn.functions.margin import (
    hinge_embedding_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
)
from shardwise.nn.functions.max_pooling import max_pool1d, max_pool2d, max_pool3d
from shardwise.nn.functions.max_unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from shardwise.nn.functions.metric import (
    cosine_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from shardwise.nn.functions.norm import layer_norm, local_response_norm, rms_norm
from shardwise.nn.functions.padding import PadMode, pad
from shardwise.nn.functions.position import alibi_bias, apply_rotary, rotary_angles, sinusoidal_encoding
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
from shardwise.nn.functions.reduction import Reduction
from shardwise.nn.functions.regression import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from shardwise.nn.functions.shuffle import channel_shuffle, pixel_shuffle, pixel_unshuffle
from shardwise.nn.functions.softmax import gumbel_softmax, log_softmax, softmax, softmin
from shardwise.nn.functions.window import fold, unfold

__all__ = [
    "BagMode",
    "PadMode",
    "Reduction",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alibi_bias",
    "alpha_dropout",
    "apply_rotary",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rotary_angles",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "sinusoidal_encoding",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "swiglu",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
]  # fmt: skip
