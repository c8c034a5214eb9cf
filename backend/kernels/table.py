"""Every kernel, in one tuple: for checks on the user's machine, and for the tests."""

from __future__ import annotations

from shardwise.backend.kernels.activation.activation import (
    erf,
    gelu_backward,
    gelu_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
)
from shardwise.backend.kernels.activation.gate import (
    glu_backward,
    glu_forward,
    swiglu_backward,
    swiglu_forward,
)
from shardwise.backend.kernels.attention.attention import attention_backward, attention_forward
from shardwise.backend.kernels.channel.batch_norm import batch_norm_backward, batch_norm_forward
from shardwise.backend.kernels.channel.group_norm import group_norm_backward, group_norm_forward
from shardwise.backend.kernels.memory.transposition import transposed
from shardwise.backend.kernels.place.embedding import embedding_backward
from shardwise.backend.kernels.place.gather import gather_along, scatter_along
from shardwise.backend.kernels.place.scatter import scatter_rows
from shardwise.backend.kernels.pointwise.bias import add_row
from shardwise.backend.kernels.pointwise.casting import to_bfloat16, to_float16, widened_float16
from shardwise.backend.kernels.pointwise_table import POINTWISE_KERNELS
from shardwise.backend.kernels.random.dropout import dropout_backward, dropout_forward
from shardwise.backend.kernels.recurrent.gru import gru_backward, gru_forward
from shardwise.backend.kernels.recurrent.lstm import lstm_backward, lstm_forward
from shardwise.backend.kernels.reduction.reduction import column_sum, sum_of_squares
from shardwise.backend.kernels.reduction.scan import (
    product_backward,
    running_largest,
    running_product,
    running_product_backward,
    running_smallest,
    running_sum,
)
from shardwise.backend.kernels.reduction.top import top_of_rows
from shardwise.backend.kernels.reduction.total import (
    largest_over,
    product_over,
    smallest_over,
    sum_of_numbers_over,
    sum_of_sizes_over,
    sum_of_squares_over,
    sum_over,
)
from shardwise.backend.kernels.row.loss import (
    cross_entropy_and_slope,
    cross_entropy_backward,
    cross_entropy_forward,
)
from shardwise.backend.kernels.row.norm import layer_norm_backward, layer_norm_forward
from shardwise.backend.kernels.row.rms_norm import rms_norm_backward, rms_norm_forward
from shardwise.backend.kernels.row.softmax import (
    log_softmax_backward,
    log_softmax_forward,
    softmax_backward,
    softmax_forward,
)
from shardwise.backend.kernels.row.weighted_loss import (
    soft_cross_entropy_backward,
    soft_cross_entropy_forward,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)
from shardwise.backend.kernels.window.convolution import add_windows_, take_windows_
from shardwise.backend.kernels.window.depthwise import depthwise_forward, depthwise_input, depthwise_weight
from shardwise.backend.kernels.window.direct import direct_forward, direct_weight
from shardwise.backend.kernels.window.pooling import (
    average_backward,
    average_forward,
    maximum_backward,
    maximum_forward,
)
from shardwise.backend.kernels.window.resampling import resample_backward, resample_forward

__all__ = ["KERNELS"]

KERNELS = (
    *(take_windows_, add_windows_, depthwise_forward, depthwise_input, depthwise_weight),
    *(direct_forward, direct_weight),
    *(erf, gelu_forward, gelu_backward, gelu_tanh_forward, gelu_tanh_backward),
    *(to_float16, to_bfloat16, widened_float16, transposed, add_row),
    *(layer_norm_forward, layer_norm_backward, rms_norm_forward, rms_norm_backward),
    *(batch_norm_forward, batch_norm_backward, group_norm_forward, group_norm_backward),
    *(softmax_forward, softmax_backward, log_softmax_forward, log_softmax_backward),
    *(average_forward, average_backward, maximum_forward, maximum_backward),
    *(resample_forward, resample_backward),
    *(attention_forward, attention_backward),
    *(cross_entropy_forward, cross_entropy_backward, cross_entropy_and_slope),
    *(dropout_forward, dropout_backward),
    embedding_backward,
    scatter_rows,
    *(gather_along, scatter_along),
    *(column_sum, sum_of_squares, running_sum),
    *(running_product, running_product_backward, running_largest, running_smallest),
    *(sum_over, sum_of_squares_over, sum_of_sizes_over, sum_of_numbers_over),
    top_of_rows,
    *(product_over, product_backward, largest_over, smallest_over),
    *(weighted_cross_entropy_forward, weighted_cross_entropy_backward),
    *(soft_cross_entropy_forward, soft_cross_entropy_backward),
    *(glu_forward, glu_backward, swiglu_forward, swiglu_backward),
    *(lstm_forward, lstm_backward, gru_forward, gru_backward),
    *POINTWISE_KERNELS,
)
"""Each has its ``plain`` formula and its ``fused`` version; the optimizers' are in ``optimizer.UPDATES``."""
